package e2e_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// keeper owns a mutex of its own.
type keeper struct {
	client     *harness.Client
	mutex      string
	token      string
	transition time.Duration
	fence      int64
	sent       time.Time       // of the last guard that succeeded
	ctx        context.Context // ends with the test
	done       chan struct{}   // closed when what was started has ended

	// When the last check that found it the owner was sent, and when the
	// first that did not was answered.
	owned, free time.Time

	mu     sync.Mutex
	guards int    // that succeeded; guarded by mu
	reason string // why it owns no more; guarded by mu
}

func newKeeper(t *testing.T, r *harness.Replica, transition time.Duration) *keeper {
	t.Helper()
	k := &keeper{client: r.Client(), mutex: "kept-" + rand.Text()[:8], token: rand.Text(), transition: transition}
	got := k.client.Must(t, "POST", "/v1/mutexes/"+k.mutex+"/acquire", map[string]any{
		"token": k.token, "ttl_ms": outageTTL.Milliseconds(), "transition_ms": transition.Milliseconds(),
	}).Want(t, 200)
	k.fence = got.Int("fencing_token")
	return k
}

func (k *keeper) window() time.Duration { return outageTTL + k.transition }

// goes runs f until it is false, or until the test ends.
func (k *keeper) goes(t *testing.T, f func() (pause time.Duration, more bool)) {
	ctx, cancel := context.WithCancel(context.Background())
	k.ctx, k.done = ctx, make(chan struct{})
	t.Cleanup(func() { cancel(); <-k.done })
	go func() {
		defer close(k.done)
		for ctx.Err() == nil {
			pause, more := f()
			if !more {
				return
			}
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
		}
	}()
}

// keeps guards every second, and soon again where that brought no answer.
func (k *keeper) keeps(t *testing.T) {
	k.goes(t, func() (time.Duration, bool) {
		if k.guard(k.ctx) {
			return keepEvery, true
		}
		return 50 * time.Millisecond, k.lost() == ""
	})
}

// call makes a call. A client does not wait for an answer as long as its ttl.
func (k *keeper) call(ctx context.Context, what string, body map[string]any) (harness.Reply, error) {
	const patience = 2 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return k.client.Call(ctx, "POST", "/v1/mutexes/"+k.mutex+"/"+what, body)
}

// guard makes one guard, and reports whether it succeeded.
func (k *keeper) guard(ctx context.Context) bool {
	sent := time.Now()
	reply, err := k.call(ctx, "guard", map[string]any{"token": k.token})
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case err != nil || reply.Status == 503:
		return false
	case reply.Status != 200:
		k.reason = fmt.Sprintf("%d %s", reply.Status, reply.Raw)
	case reply.Int("fencing_token") != k.fence:
		k.reason = fmt.Sprintf("got fencing token %d, want %d", reply.Int("fencing_token"), k.fence)
	default:
		k.guards++
		k.sent = sent
		return true
	}
	return false
}

func (k *keeper) lost() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.reason
}

func (k *keeper) count() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.guards
}

// hasGuarded returns when there were so many guards, and fails the test when
// the mutex is lost.
func (k *keeper) hasGuarded(t *testing.T, n int) {
	t.Helper()
	const longest = 30 * time.Second
	for end := time.Now().Add(longest); k.count() < n; time.Sleep(20 * time.Millisecond) {
		if why := k.lost(); why != "" {
			t.Fatalf("%s, transition %v: lost: %s", k.mutex, k.transition, why)
		}
		if time.Now().After(end) {
			t.Fatalf("%s: cannot guard for %v", k.mutex, longest)
		}
	}
}

// watches looks when its ownership ends, for it does not guard any more.
func (k *keeper) watches(t *testing.T) {
	k.goes(t, func() (time.Duration, bool) {
		sent := time.Now()
		reply, err := k.call(k.ctx, "check", map[string]any{"fencing_token": k.fence})
		switch {
		case err != nil || reply.Status != 200: // not back yet
		case reply.Body["current"] == true:
			k.owned = sent
		default:
			k.free = time.Now()
			return 0, false
		}
		return 10 * time.Millisecond, true
	})
}

// hasEnded waits until it does not own, and fails the test when that came too
// early or too late.
func (k *keeper) hasEnded(t *testing.T, early, late time.Time) {
	t.Helper()
	const longest = 30 * time.Second
	select {
	case <-k.done:
	case <-time.After(longest):
		t.Fatalf("%s: it still owns after %v, or there is no answer", k.mutex, longest)
	}
	if k.free.Before(early) {
		t.Errorf("%s, transition %v: ended %v early", k.mutex, k.transition, early.Sub(k.free))
	}
	if k.owned.After(late) {
		t.Errorf("%s, transition %v: ended %v late", k.mutex, k.transition, k.owned.Sub(late))
	}
}
