package torture_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// holder owns a mutex of its own and guards it, as a good client does: each
// call has one time-out, and is made again at once with the same token, at the
// next replica if it knows several.
type holder struct {
	name       string
	mutex      string
	token      string
	ttl        time.Duration
	transition time.Duration
	patience   time.Duration // for one call
	knows      []knownReplica
	manners    *manners // what it may see; nil = whatever there is
	fence      int64
	stops      func() // ends its guarding; once it keeps

	mu      sync.Mutex
	next    int       // of those that it knows; guarded by mu
	sent    time.Time // of the last guard that succeeded, or the acquire; guarded by mu
	got     time.Time // its answer; guarded by mu
	lost    string    // how it learned that it owns no more; guarded by mu
	trouble []string  // what else it got since the last success; guarded by mu
}

type knownReplica struct {
	number int
	http   *harness.Client
}

// holder acquires a mutex of its own at the first of the replicas.
func (c *cluster) holder(name string, ttl, transition time.Duration, replicas ...int) *holder {
	c.t.Helper()
	h := &holder{
		name: name, mutex: "held-by-" + name, token: rand.Text(),
		ttl: ttl, transition: transition, patience: max(time.Second, ttl/3),
	}
	for _, i := range replicas {
		h.knows = append(h.knows, knownReplica{i, c.Client(i)})
	}
	var r harness.Reply
	eventually(c.t, name+" owns", func() bool { // where hundreds do so, a busy machine may be too slow
		h.sent = time.Now()
		r = h.knows[0].http.Must(c.t, "POST", "/v1/mutexes/"+h.mutex+"/acquire", h.body(windows(ttl, transition)))
		return r.Status != 503
	})
	h.got, h.fence = time.Now(), r.Want(c.t, 200).Int("fencing_token")
	return h
}

// keeper is a holder that guards from the start: before many have acquired, one
// after the other on a busy machine, the W of the first may be over.
func (c *cluster) keeper(name string, ttl, transition time.Duration, replicas ...int) *holder {
	c.t.Helper()
	h := c.holder(name, ttl, transition, replicas...)
	h.keeps(c.t)
	return h
}

func (h *holder) body(more with) map[string]any {
	return with{"contender_id": h.name, "token": h.token}.and(more)
}

// window returns W.
func (h *holder) window() time.Duration { return h.ttl + h.transition }

// keeps guards after every third of the ttl, until the test ends.
func (h *holder) keeps(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	h.stops = func() { cancel(); <-done }
	t.Cleanup(h.stops)
	go func() {
		defer close(done)
		for ctx.Err() == nil && h.loss() == "" {
			sent := time.Now()
			pause := time.Until(sent.Add(h.ttl / 3))
			if !h.guards(ctx) {
				// A service that refuses connections must not be asked in a
				// busy loop.
				pause = 50 * time.Millisecond
			}
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
		}
	}()
}

// guards makes one guard at each of the replicas that it knows, until one
// answers that it owns.
func (h *holder) guards(ctx context.Context) bool {
	for range h.knows {
		if h.guardsAt(ctx) {
			return true
		}
		if ctx.Err() != nil || h.loss() != "" {
			return false
		}
	}
	return false
}

func (h *holder) guardsAt(ctx context.Context) bool {
	h.mu.Lock()
	k := h.knows[h.next]
	h.mu.Unlock()
	sent := time.Now()
	one, cancel := context.WithTimeout(ctx, h.patience)
	defer cancel()
	r, err := k.http.Call(one, "POST", "/v1/mutexes/"+h.mutex+"/guard", h.body(nil))
	got := time.Now()
	if ctx.Err() != nil {
		return false
	}
	h.manners.saw(k.number, sent, r, err)
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err == nil && r.Status == 200 && r.Int("fencing_token") == h.fence:
		h.sent, h.got, h.trouble = sent, got, nil
		return true
	case err == nil && r.Status == 200:
		h.lost = fmt.Sprintf("replica %d, at %s: got fencing token %d, want %d", k.number, got.Format("05.000"), r.Int("fencing_token"), h.fence)
	case err == nil && r.Status != 503:
		h.lost = fmt.Sprintf("replica %d, at %s: %d %s", k.number, got.Format("05.000"), r.Status, r.Raw)
	default:
		h.trouble = append(h.trouble, fmt.Sprintf("replica %d, sent %s, %v later: %s", k.number,
			sent.Format("05.000"), ms(got.Sub(sent)), what(r, err)))
		h.next = (h.next + 1) % len(h.knows)
	}
	return false
}

// what is an answer in short.
func what(r harness.Reply, err error) string {
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d %s", r.Status, r.Code())
}

// loss says how it lost the mutex, "" when it did not.
func (h *holder) loss() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lost == "" {
		return ""
	}
	return fmt.Sprintf("%s, ttl %v, transition %v: lost %s: %s\nlast success sent %s, answered %s; then\n%s",
		h.name, h.ttl, h.transition, h.mutex, h.lost,
		h.sent.Format("05.000"), h.got.Format("05.000"), strings.Join(last(h.trouble, 12), "\n"))
}

func last(lines []string, n int) []string { return lines[max(0, len(lines)-n):] }

// guarded returns when its last guard that succeeded was sent, and answered.
func (h *holder) guarded() (sent, got time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sent, h.got
}

// holders are those of a test.
type holders []*holder

// keep has all of them guard.
func (hs holders) keep(t *testing.T) {
	for _, h := range hs {
		h.keeps(t)
	}
}

// guardOnce has each guard, at the same time.
func (hs holders) guardOnce(t *testing.T) {
	var all sync.WaitGroup
	for _, h := range hs {
		all.Go(func() { h.guards(t.Context()) })
	}
	all.Wait()
}

// allGuard returns when each has sent a guard from now on that succeeded, and
// fails the test when one has lost its mutex.
func (hs holders) allGuard(t *testing.T, when string) {
	t.Helper()
	begin := time.Now()
	for _, h := range hs {
		for sent, _ := h.guarded(); sent.Before(begin); sent, _ = h.guarded() {
			if hs.lost(t, when) {
				t.FailNow()
			}
			if time.Since(begin) > time.Minute {
				t.Fatalf("%s: %s has not guarded for a minute: %s", when, h.name, strings.Join(last(h.troubles(), 12), "\n"))
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	t.Logf("%s: %d have guarded after %v", when, len(hs), ms(time.Since(begin)))
}

func (h *holder) troubles() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.trouble
}

// lost fails the test when one has lost its mutex.
func (hs holders) lost(t *testing.T, when string) bool {
	t.Helper()
	n := 0
	for _, h := range hs {
		if why := h.loss(); why != "" {
			if n++; n <= 3 { // the others' stories are the same
				t.Errorf("%s: %s", when, why)
			}
		}
	}
	if n > 0 {
		t.Errorf("%s: %d of %d holders have lost", when, n, len(hs))
	}
	return n > 0
}
