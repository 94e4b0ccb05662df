package torture_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// The owner asked again, and was told no (lukas-krecan/ShedLock 2626).
func TestT52OwnerAsksAgain(t *testing.T) {
	t.Parallel()
	s := open(t)
	alice, bob := s.party("alice"), s.party("bob")
	const ttl, transition = time.Second, 2 * time.Second
	first := alice.Acquires("deploy", windows(ttl, transition))
	next := bob.Waits("deploy", generous)

	s.eventually("its ttl is over", func() bool { return s.state("deploy").String("state") == "transition" })
	again := alice.Acquires("deploy", windows(ttl, transition))
	if again.fence != first.fence || again.String("acquired_at") != first.String("acquired_at") {
		t.Errorf("got %s, want the same ownership as %s", again.Raw, first.Raw)
	}
	if left := again.Int("ttl_remaining_ms"); left < 900 {
		t.Errorf("got ttl_remaining_ms %d, want the whole ttl again", left)
	}
	// To wait makes no difference to who need not.
	waited := alice.Asks("deploy", 10*time.Second, windows(ttl, transition)).Owns()
	if waited.fence != first.fence || waited.got.Sub(waited.sent) > 5*time.Second {
		t.Errorf("got %s after %v, want the same ownership at once", waited.Raw, waited.got.Sub(waited.sent))
	}
	if got := s.present("deploy"); !reflect.DeepEqual(got, []string{"bob"}) {
		t.Errorf("got %v in line, want bob alone", got)
	}
	if freed := next.Owns().got.Sub(waited.sent); freed < ttl+transition {
		t.Errorf("freed %v after it was renewed, want %v at least", freed, ttl+transition)
	}
}

// All slots were locked, but nothing said by whom (coreos/airlock 81).
func TestT53WhoHolds(t *testing.T) {
	t.Parallel()
	s := open(t)
	alice, bob, carol := s.party("alice"), s.party("bob"), s.party("carol")
	metadata := map[string]any{"job": "deploy", "url": "https://ci.acme.test/runs/4711"}
	g := alice.Acquires("deploy", windows(time.Minute, 30*time.Second).and(with{"metadata": metadata}))
	bob.Waits("deploy", generous)

	locked := carol.isLocked("deploy")
	waited := carol.Asks("deploy", 100*time.Millisecond).IsRefused(423, "mutex_locked")
	if waited.Int("place") != 2 || waited.Int("waited_ms") < 100 {
		t.Errorf("got %s, want place 2 after 100ms", waited.Raw)
	}
	state := s.state("deploy")
	list := s.eye.Must(t, "GET", "/v1/mutexes?owner=alice", nil).Want(t, 200)
	listed, _ := list.Body["mutexes"].([]any)
	if len(listed) != 1 {
		t.Fatalf("got %s, want one mutex", list.Raw)
	}
	item := listed[0].(map[string]any)
	for name, owner := range map[string]any{
		"423": locked.Body["holder"], "423 after a wait": waited.Body["holder"],
		"state": state.Body["owner"], "list": item["owner"],
	} {
		isHolder(t, name, owner, g, metadata)
	}
	if locked.Int("waiters") != 1 || state.Int("waiters") != 1 || item["waiters"] != 1.0 {
		t.Errorf("got waiters %d, %d and %v, want 1", locked.Int("waiters"), state.Int("waiters"), item["waiters"])
	}
	for _, raw := range []string{locked.Raw, waited.Raw, state.Raw, list.Raw, s.Log()} {
		if strings.Contains(raw, alice.token) {
			t.Errorf("alice's token is told: %s", raw)
		}
	}
}

// isHolder fails unless an answer describes the ownership.
func isHolder(t *testing.T, where string, answer any, g grant, metadata map[string]any) {
	t.Helper()
	o, _ := answer.(map[string]any)
	if o["contender_id"] != g.by.name || o["fencing_token"] != float64(g.fence) || o["acquired_at"] != g.String("acquired_at") ||
		!reflect.DeepEqual(o["metadata"], metadata) {
		t.Errorf("%s: got holder %v, want that of %s with its metadata", where, o, g.Raw)
	}
	left, whole := o["ttl_remaining_ms"].(float64), o["transition_remaining_ms"].(float64)
	most, least := 60_000.0, 60_000-float64(time.Since(g.sent).Milliseconds())-1
	if left > most || left < least || whole < left+29_999 || whole > left+30_001 {
		t.Errorf("%s: got %v and %v remaining, want %v to %v, and 30s more", where, left, whole, least, most)
	}
}

// Force-unlock without an id did nothing (hashicorp/terraform 28421).
func TestT54Break(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.declares("deploy", map[string]any{})
	alice, bob := s.party("alice"), s.party("bob")
	first := alice.Acquires("deploy")
	next := bob.Waits("deploy", generous)
	breaks := func(fence int64) func() (status int, body map[string]any, raw string) {
		path := fmt.Sprintf("/v1/mutexes/deploy/owner?fencing_token=%d&reason=%s", fence, "the+runner+is+gone")
		return func() (int, map[string]any, string) {
			r := s.eye.Must(t, "DELETE", path, nil)
			return r.Status, r.Body, r.Raw
		}
	}
	for _, wrong := range []int64{first.fence - 1, first.fence + 1} {
		if status, body, raw := breaks(wrong)(); status != 412 || body["code"] != "precondition_failed" {
			t.Errorf("fencing token %d: got %d %s, want it refused", wrong, status, raw)
		}
	}
	if got := s.owner("deploy"); got != "alice" || next.ended() {
		t.Errorf("got owner %q after breaks of what is not there, want alice", got)
	}

	for range 2 { // the second is a repeat of it, and breaks nothing more
		if status, body, raw := breaks(first.fence)(); status != 200 || body["ended"] != "broken" || body["contender_id"] != "alice" {
			t.Errorf("got %d %s, want alice's ownership broken", status, raw)
		}
	}
	second := next.Owns()
	if second.fence <= first.fence {
		t.Errorf("got fencing token %d after %d, want a larger one", second.fence, first.fence)
	}
	if got := s.owner("deploy"); got != "bob" {
		t.Errorf("got owner %q, want bob", got)
	}
	if r := refused(t, alice.calls("deploy", "guard"), 409, "not_owner"); r.String("ended") != "broken" {
		t.Errorf("got %s, want alice told that it was broken", r.Raw)
	}
	if past := s.history("deploy"); len(past) != 1 || past[0]["ended"] != "broken" || past[0]["reason"] != "the runner is gone" {
		t.Errorf("got history %v, want the break and its reason", past)
	}
	if n := audited(s.Log(), first.fence); n != 1 {
		t.Errorf("got %d entries of the break for the audit, want one", n)
	}
}

// audited returns how many entries of the log are of the break of an ownership.
func audited(log string, fence int64) (n int) {
	for line := range strings.Lines(log) {
		if strings.Contains(line, `"audit":true`) && strings.Contains(line, `"the runner is gone"`) &&
			strings.Contains(line, fmt.Sprintf(`"fencing_token":%d,`, fence)) {
			n++
		}
	}
	return n
}

// Nothing told an older ownership from a newer one (lukas-krecan/ShedLock 2201).
func TestT55FencingTokensGrow(t *testing.T) {
	t.Parallel()
	s := open(t)
	alice := s.party("alice")
	last := alice.Acquires("deploy")
	grows := func(after string, g grant) {
		t.Helper()
		if g.fence <= last.fence || g.fence >= 1<<53 {
			t.Errorf("after %s: got fencing token %d after %d, want a larger one below 2^53", after, g.fence, last.fence)
		}
		last = g
	}
	stays := func(when string, fence int64) {
		t.Helper()
		if fence != last.fence {
			t.Errorf("%s: got fencing token %d, want %d as before", when, fence, last.fence)
		}
	}
	stays("guarded", alice.Guards("deploy").fence)
	alice.Releases("deploy")
	alice = alice.anew()
	grows("a release", alice.Acquires("deploy"))

	next := alice.anew().Waits("deploy", generous, windows(200*time.Millisecond, 0))
	alice.Releases("deploy")
	grows("a hand-over", next.Owns())
	alice = alice.anew().anew()
	g, _ := alice.acquiresSoon("deploy", long)
	grows("an expiry", g)

	s.eye.Must(t, "DELETE", fmt.Sprintf("/v1/mutexes/deploy/owner?fencing_token=%d&reason=x", g.fence), nil).Want(t, 200)
	alice = alice.anew()
	grows("a break", alice.Acquires("deploy", long))

	for _, end := range []func(s *stage){
		func(s *stage) { s.Kill() },
		func(s *stage) { s.Terminate() },
	} {
		end(s)
		s = stageOf(t, s.Again())
		stays("started again", int64(s.state("deploy").Body["owner"].(map[string]any)["fencing_token"].(float64)))
		stays("guarded", alice.Guards("deploy").fence)
		alice.Releases("deploy")
		alice = alice.anew()
		grows("a restart", alice.Acquires("deploy", long))
	}
}
