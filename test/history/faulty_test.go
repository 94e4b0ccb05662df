package history_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// A run under faults.
const (
	faultyReplicas = 3
	faultyMembers  = 3
	faultyClients  = 30

	// round is the longest that one history is: longer runs are several, each
	// with a seed and a cluster of its own.
	round = 5 * time.Minute
)

// Whatever breaks, whenever: exclusion, the order of fences and of outcomes,
// and a register behind the mutexes which refuses stale fences (curator 727).
func TestHistoryUnderFaults(t *testing.T) {
	harness.Program(t)
	seed, left := someSeed(), *durationFlag
	if left <= 2*round {
		underFaults(t, seed, left)
		return
	}
	for ; left > 0 && !t.Failed(); left -= round {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { underFaults(t, seed, min(left, round)) })
		seed++
	}
}

func underFaults(t *testing.T, seed uint64, lasts time.Duration) {
	t.Logf("seed %d: make torture-long SEED=%d DURATION=%v", seed, seed, lasts)
	c := harness.StartCluster(t, harness.ClusterConfig{
		Replicas: faultyReplicas, Members: faultyMembers,
		Flags: []string{"--etcd-timeout=2s"}, // so that unknown outcomes are many
	})
	r := &run{t: t, habits: shaken, began: time.Now()}
	for i := range faultyReplicas {
		r.urls = append(r.urls, c.URL(i))
	}
	var over atomic.Bool
	r.over = func() bool { return over.Load() || t.Failed() }
	wait := r.atWork(faultyClients, seed)
	defer wait()
	defer over.Store(true)

	f := faulting{run: r, hand: newHand(c), scheduler: newScheduler(seed)}
	time.Sleep(leastPause)
	for r.now() < lasts && !t.Failed() {
		f.step()
	}
	f.healAll()
	over.Store(true)
	wait()
	f.drains()
	r.troubles = f.done
	t.Logf("%d faults", len(f.done))
	r.check()
	t.Run("T18 a register that refuses stale fences", func(t *testing.T) {
		checkRegister(t, r.writes, certain(r.ops))
	})
	r.keepFailed()
}

// faulting does faults to a run, one or two at a time.
type faulting struct {
	*run
	*hand
	*scheduler
	done []trouble
}

func (f *faulting) step() {
	together, rest := f.next()
	var began []trouble
	var ends []func()
	for _, one := range together {
		from := f.now()
		did, end := one.kind.begin(f.hand, one.a, one.b)
		did.from = from
		f.t.Logf("%8.3f s: %s, for %.1f s", f.now().Seconds(), did.what, one.lasts.Seconds())
		began, ends = append(began, did), append(ends, end)
	}
	start := f.now()
	for i, end := range ends {
		if end != nil {
			sleepUntil(f.run, start+together[i].lasts)
			end()
		}
		began[i].to = f.now()
	}
	f.done = append(f.done, began...)
	f.revive()
	time.Sleep(rest)
}

// revive starts replicas again that found no etcd at their start, and ended.
func (f *faulting) revive() {
	f.t.Helper()
	for i, r := range f.c.Replicas {
		if !r.Ended() {
			continue
		}
		if !strings.Contains(r.Log(), "no etcd answered within") && !strings.Contains(r.Log(), "no majority of its members") {
			f.t.Errorf("replica %d ended by itself: %s", i, r.Log())
		}
		f.c.StartReplica(i)
	}
}

func (f *faulting) healAll() {
	f.t.Helper()
	f.c.Heal()
	f.c.AwaitEtcd()
	f.revive()
	f.c.AwaitReplicas()
	f.t.Logf("%8.3f s: healed", f.now().Seconds())
}

// drains fails the test unless every mutex can be had, through every replica,
// within a minute after the faults, and nobody is left in line then.
func (f *faulting) drains() {
	f.t.Helper()
	deadline := f.now() + time.Minute
	var wg sync.WaitGroup
	for i := range f.urls {
		for m := range f.habits.mutexes {
			wg.Go(func() {
				c := f.newClient(faultyClients, 0)
				c.home.Store(int64(i))
				if !c.has(m, deadline) {
					f.t.Errorf("m%d cannot be had through replica %d a minute after the faults", m, i)
				}
			})
		}
	}
	wg.Wait()
	for m := range f.habits.mutexes {
		f.isEmpty(m, deadline)
	}
}

// has acquires and releases a mutex.
func (c *client) has(m int, deadline time.Duration) bool {
	cl := c.claim(c.long())
	cl.mutex = m
	home := c.home.Load()
	for c.now() < deadline {
		c.home.Store(home)
		if cl.do(cl.acquire(min(5*time.Second, deadline-c.now()))) {
			return cl.release("").do().answer == released
		}
	}
	return false
}

func (f *faulting) isEmpty(m int, deadline time.Duration) {
	f.t.Helper()
	c := harness.NewClient(f.urls[m%len(f.urls)])
	for {
		ctx, cancel := context.WithTimeout(context.Background(), f.habits.patience)
		r, err := c.Call(ctx, "GET", mutexPath(m), nil)
		cancel()
		if err == nil && r.Status == 200 && r.String("state") == "idle" && r.Int("waiters") == 0 {
			return
		}
		if f.now() > deadline {
			f.t.Errorf("m%d a minute after the faults: got %s, %v; want it idle, and nobody in line", m, r.Raw, err)
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}
