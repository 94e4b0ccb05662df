package servicetest

import (
	"time"

	"github.com/holdfast-lock/holdfast/internal/service"
)

var breakClauses = []clause{
	{"break ends the ownership", func(s *scene) {
		deploy := s.mutex("deploy")
		alice := deploy.party("alice")
		held := alice.acquires()
		got := deploy.breaks(held.Fence)
		want := service.PastOwnership{Contender: "alice", Fence: held.Fence, Ended: service.EndedBroken, Reason: "stuck"}
		if got.Contender != want.Contender || got.Fence != want.Fence || got.Ended != want.Ended || got.Reason != want.Reason {
			s.t.Errorf("got %+v, want %+v", got, want)
		}
		deploy.isIdle()
		if e := alice.guardIsRefused(service.KindNotOwner); e.Ended != service.EndedBroken {
			s.t.Errorf("got ended %q, want broken", e.Ended)
		}
	}},
	{"break hands over", func(s *scene) {
		deploy := s.mutex("deploy")
		held := deploy.party("alice").acquires()
		bob := deploy.party("bob").waits()
		deploy.breaks(held.Fence)
		deploy.isOwnedBy("bob")
		bob.acquires()
	}},
	{"P8 break repeated succeeds again and touches nothing newer", func(s *scene) {
		deploy := s.mutex("deploy")
		held := deploy.party("alice").acquires()
		first := deploy.breaks(held.Fence)
		deploy.party("bob").acquires()
		if again := deploy.breaks(held.Fence); again.Fence != first.Fence || again.Ended != service.EndedBroken {
			s.t.Errorf("got %+v, want %+v", again, first)
		}
		deploy.isOwnedBy("bob")
	}},
	{"break of another fence is refused", func(s *scene) {
		deploy := s.mutex("deploy")
		refused := func(f service.Fence) *service.Error {
			s.t.Helper()
			_, err := s.store.Break(s.t.Context(), service.BreakRequest{Mutex: deploy.name, Fence: f, Reason: "stuck"})
			return s.kind(err, service.KindPreconditionFailed)
		}
		if e := refused(1); e.Holder != nil {
			s.t.Errorf("got holder %+v, want nobody", e.Holder)
		}
		alice, bob := deploy.party("alice"), deploy.party("bob")
		had := alice.acquires()
		alice.releases()
		held := bob.acquires()
		for _, f := range []service.Fence{had.Fence, held.Fence + 1_000_000} {
			if e := refused(f); e.Holder == nil || e.Holder.Fence != held.Fence {
				s.t.Errorf("got holder %+v, want bob", e.Holder)
			}
		}
		deploy.isOwnedBy("bob")
	}},
	{"break is in the history with its reason", func(s *scene) {
		deploy := s.mutex("deploy")
		deploy.declares(service.Settings{TTL: 10 * time.Second})
		held := deploy.party("alice").acquires()
		told := deploy.breaks(held.Fence)
		if got := deploy.history(); len(got) != 1 || got[0].Ended != service.EndedBroken || got[0].Reason != "stuck" {
			s.t.Errorf("got %+v, want one that was broken as stuck", got)
		} else if !got[0].EndedAt.Equal(told.EndedAt) {
			s.t.Errorf("got %v, and was told that it ended at %v", got[0].EndedAt, told.EndedAt)
		}
	}},
}
