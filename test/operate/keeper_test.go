package operate_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// keeper is an owner who guards in the background, at the next replica that it
// knows where one does not answer, until a refusal says that it owns no more.
type keeper struct {
	p     *party
	knows []*harness.Client
	mutex string
	token int64
	stop  context.CancelFunc
	done  chan struct{} // closed when the rest is known

	guarded chan struct{} // one slot, filled by every guard that succeeded
	lost    *harness.Reply
}

// Keeps owns the mutex and guards it every 200 ms. It knows these other
// replicas, too.
func (p *party) Keeps(mutex string, w with, others ...*harness.Replica) *keeper {
	p.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	k := &keeper{p: p, knows: []*harness.Client{p.http}, mutex: mutex, stop: stop, done: make(chan struct{}), guarded: make(chan struct{}, 1)}
	for _, r := range others {
		k.knows = append(k.knows, r.Client())
	}
	k.token = p.Acquires(mutex, w)
	p.t.Cleanup(func() { k.stops() })
	go func() {
		defer close(k.done)
		for ctx.Err() == nil && k.guards(ctx) {
			select {
			case <-time.After(200 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}()
	return k
}

// guards makes one guard, and reports whether to go on.
func (k *keeper) guards(ctx context.Context) bool {
	// A third of the shortest ttl here: time for another replica is left.
	ctx, cancel := context.WithTimeout(ctx, 600*time.Millisecond)
	defer cancel()
	r, err := k.knows[0].Call(ctx, "POST", "/v1/mutexes/"+k.mutex+"/guard", k.p.body(nil))
	switch {
	case err != nil || r.Status == 503:
		k.knows = append(k.knows[1:], k.knows[0])
	case r.Status != 200 || r.Int("fencing_token") != k.token:
		k.lost = &r
		return false
	default:
		select {
		case k.guarded <- struct{}{}:
		default:
		}
	}
	return true
}

func (k *keeper) stops() {
	k.stop()
	<-k.done
}

// owns waits for a guard that was begun after now, and fails the test where
// the mutex is lost.
func (k *keeper) owns(t *testing.T) {
	t.Helper()
	timeout := time.After(generous)
	for range 3 { // the first two may have been under way
		select {
		case <-k.guarded:
		case <-k.done:
			t.Fatalf("%s lost %s: %d %s", k.p.name, k.mutex, k.lost.Status, k.lost.Raw)
		case <-timeout:
			t.Fatalf("%s cannot guard %s for %v", k.p.name, k.mutex, generous)
		}
	}
}
