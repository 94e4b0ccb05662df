package servicetest

import (
	"time"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// withoutReplies lets do run on a store whose replies are lost.
func (l *lock) withoutReplies(do func()) {
	store := l.store
	l.store = LoseReplies(store)
	do()
	l.store = store
}

var repeatClauses = []clause{
	{"P8 an acquire whose reply was lost is repeated", func(s *scene) {
		deploy := s.mutex("deploy")
		alice := deploy.party("alice")
		deploy.withoutReplies(func() { alice.isRefused(service.KindOutcomeUnknown) })
		deploy.becomesIdle() // nobody was told
		alice.acquires()
		deploy.isOwnedBy("alice")
	}},
	{"P8 a wait whose reply was lost is repeated", func(s *scene) {
		deploy := s.mutex("deploy")
		alice, bob := deploy.party("alice"), deploy.party("bob")
		alice.acquires()
		deploy.withoutReplies(func() {
			wait := bob.waits()
			deploy.party("carol").waits()
			alice.releaseIsRefused(service.KindOutcomeUnknown)
			wait.fails(service.KindOutcomeUnknown)
		})
		deploy.becomesIdle() // the grants passed on until nobody was left
		again := bob.acquires()
		bob.releases()
		if got := deploy.history(); len(got) != 2 || got[0].Fence != again.Fence || got[1].Contender != "alice" {
			s.t.Errorf("got history %+v, want bob's and alice's", got)
		}
	}},
	{"P8 an acquire of the owner whose reply was lost is repeated", func(s *scene) {
		deploy := s.mutex("deploy")
		alice := deploy.party("alice")
		held := alice.acquires()
		deploy.withoutReplies(func() { alice.isRefused(service.KindOutcomeUnknown) })
		if got := alice.acquires(); got.Fence != held.Fence {
			s.t.Errorf("got fence %d, want still %d", got.Fence, held.Fence)
		}
	}},
	{"P8 a guard whose reply was lost is repeated", func(s *scene) {
		deploy := s.mutex("deploy")
		alice := deploy.party("alice")
		held := alice.acquires()
		deploy.withoutReplies(func() { alice.guardIsRefused(service.KindOutcomeUnknown) })
		if got := alice.guards(); got.Fence != held.Fence {
			s.t.Errorf("got fence %d, want still %d", got.Fence, held.Fence)
		}
	}},
	{"P8 a release whose reply was lost is repeated", func(s *scene) {
		deploy := s.mutex("deploy")
		alice := deploy.party("alice")
		alice.acquires()
		bob := deploy.party("bob").waits()
		deploy.withoutReplies(func() {
			_, err := alice.release("op")
			s.kind(err, service.KindOutcomeUnknown)
		})
		alice.releaseSays(service.ReleasedNow, "op")
		bob.acquires()
		deploy.isOwnedBy("bob")
	}},
	{"P8 a break whose reply was lost is repeated", func(s *scene) {
		deploy := s.mutex("deploy")
		held := deploy.party("alice").acquires()
		bob := deploy.party("bob").waits()
		deploy.withoutReplies(func() {
			_, err := deploy.store.Break(s.t.Context(), service.BreakRequest{Mutex: deploy.name, Fence: held.Fence})
			s.kind(err, service.KindOutcomeUnknown)
		})
		if got := deploy.breaks(held.Fence); got.Ended != service.EndedBroken || got.Fence != held.Fence {
			s.t.Errorf("got %+v, want that %d was broken", got, held.Fence)
		}
		bob.acquires()
		deploy.isOwnedBy("bob")
	}},
	{"P8 what is settled is forgotten in the end", func(s *scene) {
		s.takesMinutes()
		deploy := s.mutex("deploy")
		alice := deploy.party("alice")
		alice.acquires()
		alice.releases()
		time.Sleep(2*time.Minute - time.Second)
		alice.releaseSays(service.ReleasedBefore, "")
		alice.isRefused(service.KindTokenSpent)
		if got := len(deploy.history()); got != 1 {
			s.t.Errorf("got %d in the history, want 1", got)
		}
		time.Sleep(30 * time.Second) // etcd's leases are not to the second
		if got := len(deploy.history()); got != 0 {
			s.t.Errorf("got %d in the history, want none", got)
		}
		if e := alice.releaseIsRefused(service.KindNotOwner); e.Ended != service.EndedUnknown {
			s.t.Errorf("got ended %q, want unknown", e.Ended)
		}
		alice.acquires()
	}},
}
