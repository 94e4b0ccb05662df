package servicetest

import (
	"time"

	"github.com/holdfast-lock/holdfast/internal/service"
)

var fenceClauses = []clause{
	{"P2 fences grow over every kind of end", func(s *scene) {
		deploy := s.mutex("deploy")
		var last service.Fence
		grows := func(after string, f service.Fence) {
			s.t.Helper()
			if f <= last {
				s.t.Errorf("after %s: got fence %d, want above %d", after, f, last)
			}
			if got := deploy.fence(); got != f {
				s.t.Errorf("after %s: check got %d, want %d", after, got, f)
			}
			last = f
		}
		alice := func() *party { return deploy.party("alice") }

		p := alice()
		grows("nothing", p.acquires().Fence)
		p.releases()
		p = alice()
		grows("a release", p.acquires().Fence)
		wait := alice().waits()
		p.releases()
		grows("a hand-over", wait.acquires().Fence)
		deploy.breaks(last)
		grows("a break", alice().acquires(ttl(shortTTL), transition(0)).Fence)
		deploy.becomesIdle()
		g := alice().isGranted()
		g.Lost()
		deploy.becomesIdle()
		last = g.Ownership().Fence
		grows("a lost grant", alice().acquires().Fence)
		deploy.declares(service.Settings{TTL: 10 * time.Second})
		s.ok(s.store.Remove(s.t.Context(), service.RemoveRequest{Mutex: deploy.name, Force: true}))
		deploy.declares(service.Settings{TTL: 10 * time.Second})
		grows("a removal", alice().acquires().Fence)
	}},
	{"P2 a guard does not change the fence", func(s *scene) {
		deploy := s.mutex("deploy")
		alice, bob := deploy.party("alice"), deploy.party("bob")
		alice.acquires()
		wait := bob.waits()
		alice.releases()
		fence := wait.acquires().Fence // of a hand-over, which is kept differently
		for range 3 {
			if got := bob.guards().Fence; got != fence {
				s.t.Fatalf("got fence %d, want still %d", got, fence)
			}
		}
		if got := deploy.reads().Owner; got == nil || got.Fence != fence {
			s.t.Errorf("got owner %+v, want fence %d", got, fence)
		}
	}},
	{"P10 check sees what was answered before", func(s *scene) {
		deploy := s.mutex("deploy")
		if got := deploy.fence(); got != 0 {
			s.t.Errorf("got fence %d before use, want 0", got)
		}
		for range 20 {
			alice := deploy.party("alice")
			if want, got := alice.acquires().Fence, deploy.fence(); got != want {
				s.t.Fatalf("got fence %d, want %d", got, want)
			}
			alice.releases()
			deploy.isIdle()
		}
	}},
}
