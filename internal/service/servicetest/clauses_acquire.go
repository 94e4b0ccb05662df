package servicetest

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-lock/holdfast/internal/service"
)

var acquireClauses = []clause{
	{"acquire owns what is idle", func(s *scene) {
		deploy := s.mutex("deploy")
		alice := deploy.party("alice")
		got := alice.acquires(ttl(8*time.Second), transition(4*time.Second), metadata("job", "17"))
		s.isFresh(got, 8*time.Second, 4*time.Second)
		if got.Contender != "alice" || got.Metadata["job"] != "17" || got.Fence <= 0 || got.Fence > service.MaxFence {
			s.t.Errorf("got %+v, want alice, job 17 and a fence", got)
		}
		if d := time.Since(got.AcquiredAt); d < -time.Minute || d > time.Minute {
			s.t.Errorf("got acquired at %v, want about now", got.AcquiredAt)
		}
		deploy.isOwnedBy("alice")
	}},
	{"acquire without asking has the defaults", func(s *scene) {
		got := s.mutex("deploy").party("alice").acquires()
		s.isFresh(got, policy(false).DefaultTTL, policy(false).DefaultTransition)
	}},
	{"acquire of what is declared has its settings and may ask for less", func(s *scene) {
		deploy := s.mutex("deploy")
		deploy.declares(service.Settings{TTL: 5 * time.Second, Transition: 3 * time.Second})
		alice, bob := deploy.party("alice"), deploy.party("bob")
		s.isFresh(alice.acquires(), 5*time.Second, 3*time.Second)
		alice.releases()
		s.isFresh(bob.acquires(ttl(time.Second), transition(0)), time.Second, 0)
	}},
	{"acquire asking for more than declared is an invalid argument", func(s *scene) {
		deploy := s.mutex("deploy")
		deploy.declares(service.Settings{TTL: 5 * time.Second, Transition: 3 * time.Second})
		alice := deploy.party("alice")
		for field, more := range map[string]mod{"ttl_ms": ttl(6 * time.Second), "transition_ms": transition(4 * time.Second)} {
			if e := alice.isRefused(service.KindInvalidArgument, more); e.Field != field {
				s.t.Errorf("got field %q, want %q", e.Field, field)
			}
		}
		deploy.isIdle()
	}},
	{"acquire ad hoc may ask for more than the defaults", func(s *scene) {
		got := s.mutex("deploy").party("alice").acquires(ttl(time.Hour), transition(10*time.Minute))
		s.isFresh(got, time.Hour, 10*time.Minute)
	}},
	{"acquire without a wait is locked and says by whom", func(s *scene) {
		deploy := s.mutex("deploy")
		held := deploy.party("alice").acquires(metadata("job", "17"))
		e := deploy.party("bob").isRefused(service.KindLocked)
		switch h := e.Holder; {
		case h == nil:
			s.t.Fatal("got no holder, want alice")
		case h.Contender != "alice" || h.Fence != held.Fence || h.Metadata["job"] != "17":
			s.t.Errorf("got holder %+v, want %+v", h, held)
		case h.TransitionRemaining <= 0 || h.TransitionRemaining > 16*time.Second:
			s.t.Errorf("got %v remaining, want up to 16 s", h.TransitionRemaining)
		}
		if e.Place != 0 || e.Waiters != 0 {
			s.t.Errorf("got place %d of %d, want none: it did not wait", e.Place, e.Waiters)
		}
		if line := deploy.line(); len(line) != 0 {
			s.t.Errorf("got line %+v, want nobody", line)
		}
	}},
	{"P1 of many who ask at once one owns", func(s *scene) {
		deploy := s.mutex("deploy")
		var owners atomic.Int32
		var all sync.WaitGroup
		for range 20 {
			crowd := deploy.party("crowd")
			all.Go(func() {
				g, err := crowd.tries()
				switch {
				case err == nil:
					g.Told()
					owners.Add(1)
				case !errors.Is(err, service.Of(service.KindLocked)):
					s.t.Errorf("got error %v, want locked", err)
				}
			})
		}
		all.Wait()
		if got := owners.Load(); got != 1 {
			s.t.Errorf("got %d owners, want 1", got)
		}
	}},
	{"P1 one contender with two tokens is two parties", func(s *scene) {
		deploy := s.mutex("deploy")
		alice := deploy.party("alice")
		alice.acquires()
		other := alice.withNewToken()
		other.isRefused(service.KindLocked)
		other.guardIsRefused(service.KindNotOwner)
		other.releaseIsRefused(service.KindNotOwner)
		deploy.isOwnedBy("alice")
	}},
	{"P2 the owner acquires again with its fence and both windows anew", func(s *scene) {
		deploy := s.mutex("deploy")
		alice := deploy.party("alice")
		first := alice.acquires(ttl(300*time.Millisecond), transition(10*time.Second))
		s.eventually("the transition window", func() bool { return deploy.reads().State == service.StateTransition })
		again := alice.acquires(ttl(8*time.Second), transition(4*time.Second), metadata("job", "18"))
		s.isFresh(again, 8*time.Second, 4*time.Second)
		if got := alice.guards(); got.TTL != 8*time.Second || got.Metadata["job"] != "18" {
			s.t.Errorf("got %+v from a guard, want what was asked last", got)
		}
		if again.Fence != first.Fence || deploy.fence() != first.Fence {
			s.t.Errorf("got fence %d, want still %d", again.Fence, first.Fence)
		}
		if n := len(deploy.line()); n != 0 {
			s.t.Errorf("got %d in line, want none", n)
		}
	}},
	{"P8 a token is good for one ownership", func(s *scene) {
		for _, how := range []service.Ending{service.EndedReleased, service.EndedBroken, service.EndedExpired} {
			alice := s.mutex(string(how)).party("alice")
			had := alice.hasOwned(how)
			if e := alice.isRefused(service.KindTokenSpent); e.Ended != how || e.Fence != had.Fence {
				s.t.Errorf("got ended %q of %d, want %q of %d", e.Ended, e.Fence, how, had.Fence)
			}
			alice.withNewToken().acquires()
		}
	}},
	{"acquire whose caller is gone changes nothing", func(s *scene) {
		deploy := s.mutex("deploy")
		ctx, gone := s.cancelled()
		_, err := deploy.store.Acquire(ctx, deploy.party("alice").request(time.Minute, nil))
		if !errors.Is(err, gone) {
			s.t.Errorf("got error %v, want %v", err, gone)
		}
		deploy.becomesIdle()
		deploy.lineIs()
	}},
	{"where names must be declared nothing else can be used", func(s *scene) {
		s.denying()
		deploy := s.mutex("deploy")
		alice := deploy.party("alice")
		ctx := s.t.Context()
		alice.isRefused(service.KindMutexNotDeclared)
		alice.polls(time.Minute).fails(service.KindMutexNotDeclared)
		_, err := s.store.Check(ctx, deploy.name)
		s.kind(err, service.KindMutexNotDeclared)
		_, err = s.store.Mutex(ctx, service.ReadRequest{Mutex: deploy.name})
		s.kind(err, service.KindMutexNotDeclared)
		_, err = s.store.Waiters(ctx, deploy.name)
		s.kind(err, service.KindMutexNotDeclared)
		_, err = s.store.History(ctx, deploy.name)
		s.kind(err, service.KindMutexNotDeclared)
		_, err = s.store.Break(ctx, service.BreakRequest{Mutex: deploy.name, Fence: 1, Reason: "stuck"})
		s.kind(err, service.KindMutexNotDeclared)
		err = nil
		for _, err = range s.store.Events(ctx, deploy.name, nil) {
			break
		}
		s.kind(err, service.KindMutexNotDeclared)

		deploy.declares(service.Settings{TTL: 5 * time.Second})
		alice.acquires()
	}},
}

// isFresh checks that both windows of an ownership have just begun.
func (s *scene) isFresh(o service.Ownership, ttl, transition time.Duration) {
	s.t.Helper()
	if o.TTL != ttl || o.Transition != transition {
		s.t.Errorf("got windows %v and %v, want %v and %v", o.TTL, o.Transition, ttl, transition)
	}
	if o.TTLRemaining > ttl || o.TTLRemaining < ttl-s.late {
		s.t.Errorf("got %v of the ttl window, want %v", o.TTLRemaining, ttl)
	}
	if w := ttl + transition; o.TransitionRemaining > w || o.TransitionRemaining < w-s.late {
		s.t.Errorf("got %v of both windows, want %v", o.TransitionRemaining, w)
	}
}
