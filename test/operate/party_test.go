package operate_test

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// generous ends a wait that would otherwise be for ever.
const generous = 30 * time.Second

// eventually waits until something is so.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(generous); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not after %v", what, generous)
		}
	}
}

// party is a contender with one token.
type party struct {
	t     *testing.T
	name  string
	token string
	http  *harness.Client
}

// with are fields of a request besides the identity.
type with map[string]any

func windows(ttl, transition time.Duration) with {
	return with{"ttl_ms": ttl.Milliseconds(), "transition_ms": transition.Milliseconds()}
}

// long is for those who hold for the whole test.
var long = windows(time.Hour, 0)

// on is a party that calls this replica.
func on(t *testing.T, r *harness.Replica, name string) *party {
	return &party{t: t, name: name, token: "token-of-" + name + "-0000000", http: r.Client()}
}

// at is the same party, calling another replica, in a part of the test.
func (p *party) at(t *testing.T, r *harness.Replica) *party {
	q := *p
	q.t, q.http = t, r.Client()
	return &q
}

// anew is the same contender with another token.
func (p *party) anew() *party {
	q := *p
	q.token += "+"
	return &q
}

func (p *party) body(w with) map[string]any {
	body := map[string]any{"contender_id": p.name, "token": p.token}
	maps.Copy(body, w)
	return body
}

// calls makes a request and returns whatever the answer is.
func (p *party) calls(mutex, verb string, w with) harness.Reply {
	p.t.Helper()
	return p.http.Must(p.t, "POST", "/v1/mutexes/"+mutex+"/"+verb, p.body(w))
}

// Acquires owns the mutex at once, and returns the fencing token.
func (p *party) Acquires(mutex string, w with) int64 {
	p.t.Helper()
	return p.calls(mutex, "acquire", w).Want(p.t, 200).Int("fencing_token")
}

// Guards renews, which must not change the fencing token.
func (p *party) Guards(mutex string, token int64) {
	p.t.Helper()
	if r := p.calls(mutex, "guard", nil).Want(p.t, 200); r.Int("fencing_token") != token {
		p.t.Errorf("%s guards %s: got %s, want fencing token %d", p.name, mutex, r.Raw, token)
	}
}

// Releases gives the mutex back, and fails unless this freed it.
func (p *party) Releases(mutex string) {
	p.t.Helper()
	if r := p.calls(mutex, "release", nil).Want(p.t, 200); r.Body["released"] != true {
		p.t.Fatalf("%s releases %s: got %s, want it released", p.name, mutex, r.Raw)
	}
}

// state returns a mutex as this party sees it.
func (p *party) state(mutex string) harness.Reply {
	p.t.Helper()
	return p.http.Must(p.t, "GET", "/v1/mutexes/"+mutex, nil).Want(p.t, 200)
}

func ownerOf(r harness.Reply) string {
	owner, _ := r.Body["owner"].(map[string]any)
	name, _ := owner["contender_id"].(string)
	return name
}

// wait is a party that waits in line, and polls again where a client has to.
type wait struct {
	p    *party
	done chan struct{} // closed when the rest is known
	last harness.Reply // 200, or what is no answer to a waiter
	err  error
}

// Waits joins the line, in polls of this length, and returns when the line is
// one longer.
func (p *party) Waits(mutex string, poll time.Duration, fields with) *wait {
	p.t.Helper()
	before := p.state(mutex).Int("waiters")
	ctx, leave := context.WithCancel(context.Background())
	w := &wait{p: p, done: make(chan struct{})}
	p.t.Cleanup(func() { leave(); <-w.done })
	body := p.body(fields)
	body["wait_ms"] = poll.Milliseconds()
	go func() {
		defer close(w.done)
		for ctx.Err() == nil {
			w.last, w.err = p.http.Call(ctx, "POST", "/v1/mutexes/"+mutex+"/acquire", body)
			switch {
			case w.err == nil && w.last.Status == 423: // at once
			case w.err != nil || w.last.Status == 503:
				time.Sleep(50 * time.Millisecond)
			default:
				return
			}
		}
	}()
	eventually(p.t, p.name+" is in line for "+mutex, func() bool {
		select {
		case <-w.done: // it need not wait any more
			return true
		default:
			return p.state(mutex).Int("waiters") > before
		}
	})
	return w
}

// Gets returns the fencing token of the ownership that the wait ends with.
func (w *wait) Gets() int64 {
	w.p.t.Helper()
	select {
	case <-w.done:
	case <-time.After(generous):
		w.p.t.Fatalf("%s still waits after %v", w.p.name, generous)
	}
	if w.err != nil {
		w.p.t.Fatalf("%s waits: %v", w.p.name, w.err)
	}
	return w.last.Want(w.p.t, 200).Int("fencing_token")
}

// hasNot fails when the wait is over.
func (w *wait) hasNot() {
	w.p.t.Helper()
	select {
	case <-w.done:
		w.p.t.Fatalf("%s does not wait any more: %v %s", w.p.name, w.err, w.last.Raw)
	default:
	}
}
