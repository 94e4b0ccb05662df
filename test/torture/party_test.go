package torture_test

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// party is a contender with one token, and connections of its own.
type party struct {
	s     *stage
	t     *testing.T
	name  string
	token string
	http  *harness.Client
}

// with are fields of a request besides the identity; nil leaves one out.
type with map[string]any

// windows are what a grant is asked to last.
func windows(ttl, transition time.Duration) with {
	return with{"ttl_ms": ttl.Milliseconds(), "transition_ms": transition.Milliseconds()}
}

// and adds fields.
func (w with) and(more with) with {
	both := maps.Clone(w)
	maps.Copy(both, more)
	return both
}

// long is for a holder who is to hold for the whole test.
var long = windows(time.Hour, 0)

// party is a contender of this name.
func (s *stage) party(name string) *party { return s.partyOf(s.t, name) }

// partyOf is one that fails a subtest of the test whose stage it is.
func (s *stage) partyOf(t *testing.T, name string) *party {
	return &party{s: s, t: t, name: name, token: "token-of-" + name + "-0000000", http: s.Client()}
}

// anew is the same contender with another token.
func (p *party) anew() *party {
	q := *p
	q.token += "+"
	return &q
}

// via is the same party on the far side of a link.
func (p *party) via(link *harness.Proxy) *party {
	q := *p
	q.http = harness.NewClient("http://" + link.Addr())
	return &q
}

// nameless is a party that tells neither who it is nor its token.
func (s *stage) nameless() *party {
	return &party{s: s, t: s.t, http: s.Client()}
}

func (p *party) body(ws ...with) map[string]any {
	body := map[string]any{}
	if p.name != "" {
		body["contender_id"], body["token"] = p.name, p.token
	}
	for _, w := range ws {
		maps.Copy(body, w)
	}
	maps.DeleteFunc(body, func(_ string, v any) bool { return v == nil })
	return body
}

// calls makes a request and returns whatever the answer is.
func (p *party) calls(mutex, verb string, ws ...with) harness.Reply {
	p.t.Helper()
	return p.http.Must(p.t, "POST", "/v1/mutexes/"+mutex+"/"+verb, p.body(ws...))
}

// grant is an ownership as its owner was told of it. Its windows began between
// sent and got.
type grant struct {
	harness.Reply
	by        *party
	mutex     string
	fence     int64
	sent, got time.Time
}

// lasts returns W.
func (g grant) lasts() time.Duration {
	return time.Duration(g.Int("ttl_ms")+g.Int("transition_ms")) * time.Millisecond
}

// soonAfter fails when it took so long to own that something else must have
// helped: a place whose present waiter was forgotten lapses after 10 s.
func (g grant) soonAfter(released time.Time) grant {
	g.by.t.Helper()
	if took := g.got.Sub(released); took > 8*time.Second {
		g.by.t.Errorf("%s owns %s after %v, want it at once", g.by.name, g.mutex, took)
	}
	return g
}

// over waits until W is over for certain, and so much longer.
func (g grant) over(more time.Duration) { time.Sleep(time.Until(g.got.Add(g.lasts() + more))) }

func (p *party) granted(verb, mutex string, ws []with) grant {
	p.t.Helper()
	sent := time.Now()
	r := p.calls(mutex, verb, ws...).Want(p.t, 200)
	return grant{Reply: r, by: p, mutex: mutex, fence: r.Int("fencing_token"), sent: sent, got: time.Now()}
}

// Acquires owns the mutex, without waiting for it.
func (p *party) Acquires(mutex string, ws ...with) grant {
	p.t.Helper()
	return p.granted("acquire", mutex, ws)
}

// Guards renews.
func (p *party) Guards(mutex string) grant {
	p.t.Helper()
	return p.granted("guard", mutex, nil)
}

// Releases gives the mutex back, and fails unless this freed it.
func (p *party) Releases(mutex string, ws ...with) {
	p.t.Helper()
	if r := p.calls(mutex, "release", ws...).Want(p.t, 200); r.Body["released"] != true {
		p.t.Fatalf("%s releases %s: got %s, want it released", p.name, mutex, r.Raw)
	}
}

// releases gives a grant back by the token that it told of.
func (g grant) releases() {
	g.by.t.Helper()
	who := &party{s: g.by.s, t: g.by.t, name: g.String("contender_id"), token: g.String("token"), http: g.by.http}
	who.Releases(g.mutex)
}

// isLocked fails unless an acquire that does not wait is refused since somebody
// else owns.
func (p *party) isLocked(mutex string) harness.Reply {
	p.t.Helper()
	return refused(p.t, p.calls(mutex, "acquire"), 423, "mutex_locked")
}

// acquiresSoon asks, without waiting, again and again, and returns how long it
// took to own.
func (p *party) acquiresSoon(mutex string, ws ...with) (grant, time.Duration) {
	p.t.Helper()
	var g grant
	took := p.s.eventually(p.name+" owns "+mutex, func() bool {
		sent := time.Now()
		r := p.calls(mutex, "acquire", ws...)
		g = grant{Reply: r, by: p, mutex: mutex, fence: r.Int("fencing_token"), sent: sent, got: time.Now()}
		return r.Status == 200
	})
	return g, took
}

// poll is an acquire that waits, on its way.
type poll struct {
	p     *party
	mutex string
	sent  time.Time
	hang  context.CancelFunc
	done  chan struct{} // closed when the rest is known

	reply harness.Reply
	err   error
	got   time.Time
}

// Asks begins to wait, and does not look whether it is in line yet.
func (p *party) Asks(mutex string, patience time.Duration, ws ...with) *poll {
	ctx, hang := context.WithCancel(p.t.Context())
	w := &poll{p: p, mutex: mutex, sent: time.Now(), hang: hang, done: make(chan struct{})}
	body := p.body(append([]with{{"wait_ms": patience.Milliseconds()}}, ws...)...)
	go func() {
		defer close(w.done)
		w.reply, w.err = p.http.Call(ctx, "POST", "/v1/mutexes/"+mutex+"/acquire", body)
		w.got = time.Now()
	}()
	return w
}

// Waits begins to wait, and returns when somebody more is present in line.
func (p *party) Waits(mutex string, patience time.Duration, ws ...with) *poll {
	p.t.Helper()
	before := p.s.waiters(mutex)
	w := p.Asks(mutex, patience, ws...)
	p.s.eventually(p.name+" waits for "+mutex, func() bool { return w.ended() || p.s.waiters(mutex) > before })
	return w
}

// crowd begins so many waits at the same time, and returns when all are
// present in line. Waiters are called after their number.
func (s *stage) crowd(mutex string, n int, ws ...with) map[string]*poll {
	s.t.Helper()
	polls := make(map[string]*poll, n)
	for i := range n {
		p := s.party(fmt.Sprintf("waiter-%03d", i))
		polls[p.name] = p.Asks(mutex, 45*time.Second, ws...)
	}
	s.eventually(fmt.Sprintf("%d wait for %s", n, mutex), func() bool { return s.waiters(mutex) == n })
	return polls
}

// HangsUp closes the connection. It returns when the client is gone.
func (w *poll) HangsUp() {
	w.hang()
	<-w.done
}

func (w *poll) ended() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// answer waits for the answer, whatever it is.
func (w *poll) answer() harness.Reply {
	w.p.t.Helper()
	select {
	case <-w.done:
	case <-time.After(time.Minute):
		w.p.t.Fatalf("%s, waiting for %s: no answer after a minute", w.p.name, w.mutex)
	}
	if w.err != nil {
		w.p.t.Fatalf("%s, waiting for %s: %v", w.p.name, w.mutex, w.err)
	}
	return w.reply
}

// Owns waits until the wait brought the mutex.
func (w *poll) Owns() grant {
	w.p.t.Helper()
	r := w.answer()
	if r.Status != 200 {
		w.p.t.Fatalf("%s, waiting for %s: got %d %s, want to own it", w.p.name, w.mutex, r.Status, r.Raw)
	}
	return grant{Reply: r, by: w.p, mutex: w.mutex, fence: r.Int("fencing_token"), sent: w.sent, got: w.got}
}

// IsRefused waits until the wait ended so.
func (w *poll) IsRefused(status int, code string) harness.Reply {
	w.p.t.Helper()
	return refused(w.p.t, w.answer(), status, code)
}
