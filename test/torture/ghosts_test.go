package torture_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// A dropped long poll was granted later, to nobody (palantir/atlasdb 1724).
func TestT01DroppedPollIsNeverGranted(t *testing.T) {
	t.Parallel()
	t.Run("dropped before the release", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		alice, bob, carol := s.party("alice"), s.party("bob"), s.party("carol")
		seen := s.witness("deploy")
		link := harness.NewProxy(t, s.Addr())

		alice.Acquires("deploy", long)
		lost := bob.via(link).Waits("deploy", 30*time.Second)
		time.Sleep(time.Until(lost.sent.Add(time.Second))) // a poll that has been quiet for a while
		link.Cut()
		<-lost.done
		s.eventually("bob is out of the line", func() bool { return s.waiters("deploy") == 0 })
		alice.Releases("deploy")
		carol.Acquires("deploy")
		carol.Releases("deploy")
		s.isIdle("deploy")
		seen.saw("alice", "carol")
	})
	t.Run("dropped at the release", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		var times []time.Duration
		for round := range 10 {
			mutex := fmt.Sprintf("deploy-%d", round)
			alice, bob, carol := s.party("alice"), s.party("bob"), s.party("carol")
			link := harness.NewProxy(t, s.Addr())
			alice.Acquires(mutex, long)
			lost := bob.via(link).Waits(mutex, 30*time.Second, windows(3*time.Second, 0))
			link.Cut()
			alice.Releases(mutex)
			_, took := carol.acquiresSoon(mutex, long)
			times = append(times, took)
			<-lost.done
			if got := s.owner(mutex); got != "carol" {
				t.Errorf("got owner %q, want carol", got)
			}
		}
		seldomLate(t, "the next one owns", time.Second, times)
	})
}

// An HTTP library sent a lock request that had timed out once more; both were
// queued (palantir/atlasdb 1680).
func TestT02RequestSentTwice(t *testing.T) {
	t.Parallel()
	// Each sends the second request and kills the first one's socket.
	orders := map[string]func(s *stage, link *harness.Proxy, again func() *poll) *poll{
		"killed before": func(_ *stage, link *harness.Proxy, again func() *poll) *poll {
			link.Cut()
			return again()
		},
		"killed meanwhile": func(_ *stage, link *harness.Proxy, again func() *poll) *poll {
			second := again()
			link.Cut()
			return second
		},
		"killed after": func(s *stage, link *harness.Proxy, again func() *poll) *poll {
			link.Hold(harness.ToClient) // it does not hear that it is superseded
			before := s.state("deploy").Int("revision")
			second := again()
			s.eventually("the second is in", func() bool { return s.state("deploy").Int("revision") > before })
			link.Cut()
			return second
		},
	}
	for name, kill := range orders {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			alice, bob := s.party("alice"), s.party("bob")
			link := harness.NewProxy(t, s.Addr())
			seen := s.witness("deploy")

			alice.Acquires("deploy", long)
			first := bob.via(link).Waits("deploy", 30*time.Second, long)
			second := kill(s, link, func() *poll { return bob.Asks("deploy", 30*time.Second, long) })
			<-first.done
			s.eventually("bob is in line", func() bool { return s.waiters("deploy") == 1 })
			released := time.Now()
			alice.Releases("deploy")
			second.Owns().soonAfter(released).releases()
			s.isIdle("deploy")
			s.becomesEmpty("deploy")
			seen.saw("alice", "bob")
		})
	}
}

func TestT02RequestSentTwiceWithoutToken(t *testing.T) {
	t.Parallel()
	s := open(t)
	alice := s.party("alice")
	seen := s.witness("deploy")

	alice.Acquires("deploy", long)
	first := s.nameless().Waits("deploy", 30*time.Second, long)
	ghost := s.present("deploy")[0]
	second := s.nameless().Waits("deploy", 30*time.Second, long)
	first.HangsUp()
	s.eventually("the first is out of the line", func() bool { return s.waiters("deploy") == 1 })
	released := time.Now()
	alice.Releases("deploy")
	g := second.Owns().soonAfter(released)
	if g.String("contender_id") == ghost {
		t.Errorf("got it granted to %s, who is gone", ghost)
	}
	g.releases()
	s.isIdle("deploy")
	s.becomesEmpty("deploy")
	seen.saw("alice", g.String("contender_id"))
}

// Waiters were stuck for hours (palantir/atlasdb 1715).
func TestT03CrowdWithManyDead(t *testing.T) {
	t.Parallel()
	s := open(t)
	alice := s.party("alice")
	alice.Acquires("deploy", long)
	// Whoever dies in the very moment in which it is granted owns until its W
	// is over: its answer was on the way, and TCP shows no more than that.
	polls := s.crowd("deploy", 200, windows(3*time.Second, 0))
	order := s.present("deploy")

	doomed := rand.Perm(len(order))[:100]
	dead := make(map[string]bool)
	for _, i := range doomed {
		dead[order[i]] = true
		polls[order[i]].hang() // not waited for: they die while the chain goes on
	}
	alice.Releases("deploy")
	var served []string
	for _, who := range order {
		if dead[who] {
			<-polls[who].done
			continue
		}
		polls[who].Owns().releases()
		served = append(served, who)
	}
	if len(served) != 100 {
		t.Errorf("got %d served, want 100", len(served))
	}
	s.isIdle("deploy")
	s.becomesEmpty("deploy")
}

// A waiter that timed out stayed in line (go-zookeeper/zk 229).
func TestT07PatienceIsOver(t *testing.T) {
	t.Parallel()
	s := open(t)
	alice, carol := s.party("alice"), s.party("carol")
	alice.Acquires("deploy", long)

	const atOnce, rounds = 50, 20
	for round := range rounds {
		polls := make([]*poll, atOnce)
		for i := range polls {
			p := s.party(fmt.Sprintf("waiter-%d-%d", round, i))
			polls[i] = p.Asks("deploy", 100*time.Millisecond)
		}
		for _, w := range polls {
			if r := w.IsRefused(423, "mutex_locked"); r.Int("waited_ms") < 100 {
				t.Errorf("got waited_ms %d, want 100 or more", r.Int("waited_ms"))
			}
		}
	}
	if got := s.waiters("deploy"); got != 0 {
		t.Errorf("got %d waiters, want none", got)
	}
	alice.Releases("deploy")
	carol.Acquires("deploy", long)
	s.becomesEmpty("deploy")
}

// A holder or a waiter that was killed freed nothing (samchon/mutex 5).
func TestT08KilledClients(t *testing.T) {
	t.Parallel()
	t.Run("the holder", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		alice, bob := s.party("alice"), s.party("bob")
		begin := time.Now()
		holder := alice.elsewhere("deploy", windows(time.Second, 500*time.Millisecond))
		holder.isTold(200)
		bobs := bob.Waits("deploy", generous)
		holder.kill()
		if took := bobs.Owns().got.Sub(begin); took < 1500*time.Millisecond {
			t.Errorf("freed after %v, want 1.5s at least", took)
		}
	})
	t.Run("a waiter", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		alice := s.party("alice")
		alice.Acquires("deploy", long)
		var times []time.Duration
		for round := range 5 {
			p := s.party(fmt.Sprintf("waiter-%d", round))
			waiter := p.elsewhere("deploy", with{"wait_ms": 40_000})
			s.eventually("it waits", func() bool { return s.waiters("deploy") == 1 })
			waiter.kill()
			times = append(times, s.eventually("it is out of the line", func() bool { return s.waiters("deploy") == 0 }))
		}
		// What is at once for a person; the kernel, the service and etcd have
		// all had their part in it.
		seldomLate(t, "out of the line", 500*time.Millisecond, times)
		alice.Releases("deploy")
		s.isIdle("deploy")
	})
}
