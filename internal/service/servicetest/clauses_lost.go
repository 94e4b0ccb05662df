package servicetest

import (
	"time"

	"github.com/holdfast-lock/holdfast/internal/service"
)

var lostClauses = []clause{
	{"P6 a lost grant passes on and keeps its place", func(s *scene) {
		deploy := s.mutex("deploy")
		alice, bob, carol := deploy.party("alice"), deploy.party("bob"), deploy.party("carol")
		alice.acquires()
		lost := bob.waits()
		next := carol.waits()
		deploy.party("dave").waits()
		alice.releases()
		lost.isGranted().Lost()
		next.acquires()
		deploy.isOwnedBy("carol")
		back := bob.waits() // the token is not spent
		deploy.lineIs("bob", "dave")
		carol.releases()
		back.acquires()
	}},
	{"P6 a lost grant leaves nothing owned and nobody present", func(s *scene) {
		deploy := s.mutex("deploy")
		alice, bob := deploy.party("alice"), deploy.party("bob")
		lost := alice.isGranted()
		lost.Lost()
		deploy.becomesIdle()
		deploy.lineIs()
		bob.acquires()
		if e := alice.guardIsRefused(service.KindNotOwner); e.Holder == nil || e.Holder.Contender != "bob" {
			s.t.Errorf("got holder %+v, want bob", e.Holder)
		}
		bob.releases()
		if got := alice.acquires(); got.Fence <= lost.Ownership().Fence {
			s.t.Errorf("got fence %d, want above %d", got.Fence, lost.Ownership().Fence)
		}
	}},
	{"a lost renewal leaves the ownership as it was", func(s *scene) {
		deploy := s.mutex("deploy")
		alice := deploy.party("alice")
		first := alice.acquires()
		alice.isGranted().Lost()
		s.remains("owned by alice", func() bool { return deploy.fence() == first.Fence })
		alice.guards()
	}},
	{"P8 a grant that a newer request has repeated is not undone", func(s *scene) {
		deploy := s.mutex("deploy")
		alice := deploy.party("alice")
		lost := alice.isGranted()
		again := alice.isGranted()
		lost.Lost() // before the newer client is told
		fence := again.told().Fence
		s.remains("owned by alice", func() bool { return deploy.fence() == fence })
		alice.guards()
	}},
	{"P3 a grant that was guarded is not undone", func(s *scene) {
		deploy := s.mutex("deploy")
		alice := deploy.party("alice")
		lost := alice.isGranted()
		held := alice.guards()
		lost.Lost()
		s.remains("owned by alice", func() bool { return deploy.fence() == held.Fence })
		alice.guards()
	}},
	{"a lost grant that ended already undoes nothing newer", func(s *scene) {
		deploy := s.mutex("deploy")
		alice, bob := deploy.party("alice"), deploy.party("bob")
		lost := alice.isGranted(ttl(100*time.Millisecond), transition(0))
		deploy.becomesIdle()
		held := bob.acquires()
		lost.Lost()
		s.remains("owned by bob", func() bool { return deploy.fence() == held.Fence })
	}},
	{"P6 an untold grant ends with its windows", func(s *scene) {
		deploy := s.mutex("deploy")
		sent := time.Now()
		deploy.party("alice").isGranted(ttl(shortTTL), transition(shortTransition))
		answered := time.Now()
		deploy.becomesIdle()
		s.happens("the end", shortWindow, sent, answered, time.Now())
	}},
}
