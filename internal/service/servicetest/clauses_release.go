package servicetest

import (
	"fmt"
	"time"

	"github.com/holdfast-lock/holdfast/internal/service"
)

var releaseClauses = []clause{
	{"release frees", func(s *scene) {
		deploy := s.mutex("deploy")
		alice := deploy.party("alice")
		alice.acquires()
		alice.releases()
		deploy.isIdle()
		deploy.party("bob").acquires()
	}},
	{"P10 release hands over in the same moment", func(s *scene) {
		deploy := s.mutex("deploy")
		alice := deploy.party("alice")
		alice.acquires()
		bob := deploy.party("bob").waits()
		alice.releases()
		deploy.isOwnedBy("bob")
		bob.acquires()
	}},
	{"P8 a repeated release says that it was released before", func(s *scene) {
		deploy := s.mutex("deploy")
		alice, bob := deploy.party("alice"), deploy.party("bob")
		alice.acquires()
		alice.releases()
		alice.releaseSays(service.ReleasedBefore, "")
		bob.acquires()
		alice.releaseSays(service.ReleasedBefore, "")
		deploy.isOwnedBy("bob")
	}},
	{"P8 the call that freed it knows itself by its operation id", func(s *scene) {
		deploy := s.mutex("deploy")
		alice, bob := deploy.party("alice"), deploy.party("bob")
		alice.acquires()
		alice.releaseSays(service.ReleasedNow, "op-1")
		bob.acquires()
		alice.releaseSays(service.ReleasedNow, "op-1")
		alice.releaseSays(service.ReleasedBefore, "op-2")
		alice.releaseSays(service.ReleasedBefore, "")
		deploy.isOwnedBy("bob")
	}},
	{"release by who never owned is refused", func(s *scene) {
		deploy := s.mutex("deploy")
		bob := deploy.party("bob")
		if e := bob.releaseIsRefused(service.KindNotOwner); e.Ended != service.EndedUnknown {
			s.t.Errorf("got ended %q, want unknown", e.Ended)
		}
		deploy.party("alice").acquires()
		if e := bob.releaseIsRefused(service.KindNotOwner); e.Holder == nil || e.Holder.Contender != "alice" {
			s.t.Errorf("got holder %+v, want alice", e.Holder)
		}
		deploy.isOwnedBy("alice")
	}},
	{"release of what was lost says how", func(s *scene) {
		for _, how := range []service.Ending{service.EndedBroken, service.EndedExpired} {
			deploy := s.mutex(string(how))
			alice := deploy.party("alice")
			had := alice.hasOwned(how)
			deploy.party("bob").acquires()
			carol := deploy.party("carol").waits()
			if e := alice.releaseIsRefused(service.KindNotOwner); e.Ended != how || e.Fence != had.Fence {
				s.t.Errorf("got ended %q of %d, want %q of %d", e.Ended, e.Fence, how, had.Fence)
			}
			deploy.isOwnedBy("bob")
			deploy.lineIs("carol")
			carol.isCancelled()
		}
	}},
	{"P8 leaving the line twice says the same", func(s *scene) {
		deploy := s.mutex("deploy")
		alice, bob := deploy.party("alice"), deploy.party("bob")
		alice.acquires()
		bob.waits()
		bob.releaseSays(service.LeftLine, "op-1")
		bob.releaseSays(service.LeftLine, "op-1")
		bob.releaseSays(service.LeftLine, "")
		if e := bob.guardIsRefused(service.KindNotOwner); e.Ended != service.EndedUnknown {
			s.t.Errorf("got ended %q, want unknown: it never owned", e.Ended)
		}
		deploy.isOwnedBy("alice")
	}},
	{"P8 a late duplicate of leaving does not free what came after", func(s *scene) {
		deploy := s.mutex("deploy")
		alice, bob := deploy.party("alice"), deploy.party("bob")
		alice.acquires()
		bob.waits()
		bob.releaseSays(service.LeftLine, "op-1")
		again := bob.waits() // leaving does not spend the token
		bob.releaseSays(service.LeftLine, "op-1")
		deploy.lineIs("bob")
		alice.releases()
		again.acquires()
		bob.releaseSays(service.LeftLine, "op-1")
		deploy.isOwnedBy("bob")
		bob.releaseSays(service.ReleasedNow, "op-2")
	}},
	{"a release at the end of the windows has one outcome", func(s *scene) {
		deploy := s.mutex("deploy")
		for i := range 10 {
			alice := deploy.party(fmt.Sprintf("alice-%d", i))
			had := alice.acquires(ttl(100*time.Millisecond), transition(0))
			time.Sleep(had.TransitionRemaining - 2*time.Millisecond + time.Duration(i)*time.Millisecond/2)
			want := service.EndedReleased
			if outcome, err := alice.release("op"); err != nil {
				want = s.kind(err, service.KindNotOwner).Ended
			} else if outcome != service.ReleasedNow {
				s.t.Errorf("got outcome %d, want that it was released now", outcome)
			}
			past := deploy.history()[0]
			if past.Fence != had.Fence || past.Ended != want {
				s.t.Errorf("got %+v in the history, want that %d %s", past, had.Fence, want)
			}
			deploy.isIdle()
		}
	}},
}
