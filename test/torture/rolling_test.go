package torture_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// Everything is restarted in order, one after the other, while clients work:
// nobody loses a mutex, and nobody sees more of it than that a call has to be
// made again.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	c := openCluster(t, 3, 3)
	m := newManners()
	var all holders
	for i := range sized(9, 30) {
		h := c.holder(fmt.Sprintf("holder-%d", i), 9*time.Second, 6*time.Second, i%3, (i+1)%3, (i+2)%3)
		h.patience, h.manners = patience, m
		all = append(all, h)
	}
	all.keep(t)
	ctx, stop := context.WithCancel(t.Context())
	var work sync.WaitGroup
	crowds := []*crowd{newCrowd(c, m, "short", 0), newCrowd(c, m, "waited-for", 2*time.Second)}
	inVain := newCrowd(c, m, all[0].mutex, 4*time.Second)
	for _, w := range append(crowds, inVain) {
		for i := range sized(4, 8) {
			work.Go(func() { w.worker(i).works(ctx) })
		}
	}
	for range sized(1, 5) {
		for i := range c.Replicas {
			m.leaves(i)
			c.Replicas[i].Terminate()
			c.restartReplica(i)
			m.returns(i)
		}
		all.allGuard(t, "all replicas have restarted")
		for _, i := range sized(c.theLeader, c.everyMember)() {
			c.Etcd.Members[i].Terminate()
			c.restartMember(i)
		}
		all.allGuard(t, "all members have restarted")
	}
	stop()
	work.Wait()
	for _, w := range crowds {
		w.wasServed(t)
	}
	inVain.hadNoFault(t)
	m.wereGood(t)
}

// patience is longer than --etcd-timeout: every call must be answered.
const patience = 8 * time.Second

// crowd works at one mutex, with a token of its own for each ownership.
type crowd struct {
	c     *cluster
	m     *manners
	mutex string
	wait  time.Duration

	owners, fence, grants atomic.Int64
	mu                    sync.Mutex
	faults                []string // guarded by mu
}

func newCrowd(c *cluster, m *manners, mutex string, wait time.Duration) *crowd {
	return &crowd{c: c, m: m, mutex: mutex, wait: wait}
}

// worker is one of a crowd. It knows every replica.
type worker struct {
	*crowd
	knows []*harness.Client
	at    int
	token string
}

func (w *crowd) worker(i int) *worker {
	k := &worker{crowd: w, at: i % len(w.c.Replicas)}
	for j := range w.c.Replicas {
		k.knows = append(k.knows, w.c.Client(j))
	}
	return k
}

func (w *crowd) fault(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

// works acquires and releases, until it is told to stop between two of them.
func (k *worker) works(ctx context.Context) {
	for ctx.Err() == nil {
		k.token = rand.Text()
		own, ok := k.acquires(ctx)
		if !ok {
			continue
		}
		if n := k.owners.Add(1); n != 1 {
			k.fault("%s: %d own at the same time", k.mutex, n)
		}
		if last := k.fence.Swap(own.Int("fencing_token")); own.Int("fencing_token") <= last {
			k.fault("%s: got fencing token %d after %d", k.mutex, own.Int("fencing_token"), last)
		}
		k.grants.Add(1)
		time.Sleep(5 * time.Millisecond) // some work
		k.owners.Add(-1)
		if r := k.call("release", nil); r.Body["released"] != true && r.String("reason") != "already_released" {
			k.fault("%s: got %s, want it released", k.mutex, r.Raw)
		}
	}
}

// acquires asks until it owns. Who does not wait asks once, and so does not own
// when somebody else does; the token is used no more.
func (k *worker) acquires(ctx context.Context) (harness.Reply, bool) {
	for {
		r := k.call("acquire", with{"wait_ms": k.wait.Milliseconds()})
		switch {
		case r.Status == 200:
			return r, true
		case r.Status != 423:
			k.fault("%s: got %d %s", k.mutex, r.Status, r.Raw)
			return r, false
		case k.wait == 0:
			time.Sleep(20 * time.Millisecond)
			return r, false
		case ctx.Err() != nil:
			k.call("release", nil) // leaves the line
			return r, false
		}
	}
}

// call makes a call, again and again with the same token, at one replica after
// the other, until it is answered with something else than to come again.
func (k *worker) call(verb string, more with) harness.Reply {
	body := with{"token": k.token}.and(more)
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		ctx, cancel := context.WithTimeout(context.Background(), k.wait+patience)
		sent := time.Now()
		r, err := k.knows[k.at].Call(ctx, "POST", "/v1/mutexes/"+k.mutex+"/"+verb, body)
		cancel()
		k.m.saw(k.at, sent, r, err)
		if err == nil && r.Status != 503 {
			return r
		}
		k.at = (k.at + 1) % len(k.knows)
		time.Sleep(20 * time.Millisecond)
	}
	k.fault("%s: %s has no answer for a minute", k.mutex, verb)
	return harness.Reply{}
}

// hadNoFault fails the test unless they were told what they should be.
func (w *crowd) hadNoFault(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.faults[:min(len(w.faults), 10)] {
		t.Error(f)
	}
}

// wasServed fails the test unless they worked, and one at a time.
func (w *crowd) wasServed(t *testing.T) {
	t.Helper()
	w.hadNoFault(t)
	t.Logf("%s: %d ownerships", w.mutex, w.grants.Load())
	if w.grants.Load() < 20 {
		t.Errorf("%s: got %d ownerships, want many", w.mutex, w.grants.Load())
	}
}
