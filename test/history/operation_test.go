package history_test

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// kind is what a client asked for.
type kind string

const (
	acquire  kind = "acquire"
	guard    kind = "guard"
	release  kind = "release"
	check    kind = "check"
	breaking kind = "break"
)

// answer is what the client was told.
type answer string

const (
	unknown     answer = "unknown"     // nothing: it may have happened, now or later
	owned       answer = "owned"       // 200 of acquire and guard
	locked      answer = "locked"      // 423
	spent       answer = "token_spent" // the token had its ownership
	passed      answer = "passed"      // its place is another poll's, or released: says nothing of the owner
	notOwner    answer = "not_owner"   // 409
	released    answer = "released"    // this call freed it
	freedBefore answer = "already_released"
	leftLine    answer = "left_line"
	checked     answer = "checked"
	broken      answer = "broken"
	notCurrent  answer = "not_current" // 412: another owns, or nobody
	undone      answer = "unavailable" // nothing was changed, or what was is undone
	impossible  answer = "impossible"  // nothing that the contract allows
)

// party is a contender with its token, numbered from 1; 0 is not known.
type party int

func (p party) contender() string { return fmt.Sprintf("party-%d", p) }
func (p party) token() string     { return fmt.Sprintf("the-token-of-party-%06d", p) }

func partyOf(contender string) party {
	var p party
	_, _ = fmt.Sscanf(contender, "party-%d", &p) // 0 where it is none of ours
	return p
}

// Fences are positive; in place of what a client saw:
const (
	nobody  int64 = 0  // it saw that nobody owns
	nothing int64 = -1 // it saw nothing of the owner
)

// never is when an operation ends whose end nobody saw.
const never time.Duration = math.MaxInt64

// op is one operation. Times are since the beginning of the run, on the
// clients' one monotonic clock.
type op struct {
	client  int
	replica int
	mutex   int
	kind    kind
	party   party         // of acquire, guard, release
	waits   bool          // of acquire: it waits, and there are faults meanwhile
	asked   time.Duration // of acquire: W
	fence   int64         // that check and break ask about
	opID    string        // of release
	sent    time.Duration

	left   time.Duration // when the client had its answer, or gave up
	got    time.Duration // left; never, if unknown
	answer answer
	seen   int64         // the fence of the owner as the answer tells it
	whose  party         // that owner
	window time.Duration // of owned: W
	ended  string        // of not_owner and token_spent: what became of the ownership
	text   string        // of impossible
}

func (o *op) String() string {
	got := "…"
	if o.got != never {
		got = fmt.Sprintf("%.3f", ms(o.got))
	}
	s := fmt.Sprintf("[%.3f, %s] m%d %s", ms(o.sent), got, o.mutex, o.kind)
	if o.party != 0 {
		s += " by " + o.party.contender()
	}
	if o.fence != 0 {
		s += fmt.Sprintf(" of %d", o.fence)
	}
	s += fmt.Sprintf(" → r%d %s", o.replica, o.answer)
	if o.ended != "" {
		s += " (" + o.ended + ")"
	}
	switch o.seen {
	case nothing:
	case nobody:
		s += ", nobody owns"
	default:
		s += fmt.Sprintf(", %d owns (%s)", o.seen, o.whose.contender())
	}
	return s + o.text
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// take reads an answer into o.
func (o *op) take(r harness.Reply) {
	o.seen = nothing
	problem := r.Status >= 400
	switch {
	case r.Status == 503 && r.Code() == "outcome_unknown":
		o.answer, o.got = unknown, never
	case r.Status == 503:
		o.answer = undone
	case r.Status == 423:
		o.answer = locked
		o.takeHolder(r.Body["holder"])
	case r.Status == 412 && o.kind == breaking:
		o.answer = notCurrent
		o.takeHolder(r.Body["holder"])
	case r.Code() == "not_owner" && (o.kind == guard || o.kind == release):
		o.answer, o.ended = notOwner, r.String("ended")
		o.takeHolder(r.Body["holder"])
	case r.Code() == "token_spent" && o.kind == acquire:
		o.answer, o.ended = spent, r.String("ended")
	case (r.Code() == "superseded" || r.Code() == "left_line") && o.kind == acquire:
		o.answer = passed
	case !problem && r.Body != nil:
		o.takeSuccess(r.Body)
	}
	if o.answer == "" {
		o.answer, o.text = impossible, fmt.Sprintf(": %d %s", r.Status, r.Raw)
	}
}

func (o *op) takeSuccess(body map[string]any) {
	switch o.kind {
	case acquire, guard:
		o.takeOwned(body)
	case release:
		switch reason := answer(text(body["reason"])); {
		case body["released"] == true:
			o.answer = released
		case reason == freedBefore || reason == leftLine:
			o.answer = reason
		default:
			o.answer, o.text = impossible, fmt.Sprintf(": %v", body)
		}
	case check:
		o.answer, o.seen = checked, number(body["fencing_token"])
		if is := body["current"] == true; is != (o.seen == o.fence) {
			o.answer, o.text = impossible, fmt.Sprintf(": current is %v", is)
		}
	case breaking:
		if o.answer = broken; number(body["fencing_token"]) != o.fence {
			o.answer, o.text = impossible, fmt.Sprintf(": broke %v", body)
		}
	}
}

func (o *op) takeOwned(body map[string]any) {
	o.answer, o.seen, o.whose = owned, number(body["fencing_token"]), partyOf(text(body["contender_id"]))
	o.window = time.Duration(number(body["ttl_ms"])+number(body["transition_ms"])) * time.Millisecond
	if o.whose != o.party || o.seen <= 0 {
		o.answer, o.text = impossible, fmt.Sprintf(": %v", body)
	}
}

// takeBatch reads the outcome of a guard that was sent as a batch of one.
func (o *op) takeBatch(r harness.Reply) {
	results, _ := r.Body["results"].([]any)
	if r.Status != 200 || len(results) != 1 {
		o.take(r)
		return
	}
	result, _ := results[0].(map[string]any)
	o.seen = nothing
	switch status := text(result["status"]); status {
	case "guarded":
		ownership, _ := result["ownership"].(map[string]any)
		o.takeOwned(ownership)
	case "not_owner":
		o.answer, o.ended = notOwner, text(result["ended"])
		o.takeHolder(result["holder"])
	case "outcome_unknown":
		o.answer, o.got = unknown, never
	default:
		o.answer, o.text = impossible, ": "+status
	}
}

func (o *op) takeHolder(holder any) {
	o.seen = nobody
	if h, ok := holder.(map[string]any); ok {
		o.seen, o.whose = number(h["fencing_token"]), partyOf(text(h["contender_id"]))
	}
}

func number(v any) int64 {
	n, _ := v.(float64)
	return int64(n)
}

func text(v any) string {
	s, _ := v.(string)
	return strings.TrimSpace(s)
}
