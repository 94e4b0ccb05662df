package servicetest

import (
	"time"

	"github.com/holdfast-lock/holdfast/internal/service"
)

const (
	shortTTL        = 300 * time.Millisecond
	shortTransition = 200 * time.Millisecond
	shortWindow     = shortTTL + shortTransition

	// Guards that are to keep an ownership come so often that a machine may
	// stand still for a second in between.
	keptTTL        = 1500 * time.Millisecond
	keptTransition = 500 * time.Millisecond
	keepingEvery   = 250 * time.Millisecond
	keepingGuards  = 9 // beyond both windows of the grant
)

var windowClauses = []clause{
	{"P3 P4 the next waiter owns when both windows are over", func(s *scene) {
		deploy := s.mutex("deploy")
		alice := deploy.party("alice")
		alice.acquires()
		bob := deploy.party("bob").waits()
		alice.acquires(ttl(shortTTL), transition(shortTransition))
		sent := time.Now()
		alice.guards()
		answered := time.Now()
		bob.acquires()
		s.happens("the hand-over", shortWindow, sent, answered, bob.endedAt)
		alice.guardIsRefused(service.KindNotOwner)
	}},
	{"P3 P4 a transition of 0 is 0", func(s *scene) {
		deploy := s.mutex("deploy")
		alice := deploy.party("alice")
		alice.acquires()
		bob := deploy.party("bob").waits()
		alice.acquires(ttl(shortTTL), transition(0))
		sent := time.Now()
		if got := alice.guards(); got.Transition != 0 || got.TransitionRemaining != got.TTLRemaining {
			s.t.Errorf("got %+v, want no transition window", got)
		}
		answered := time.Now()
		bob.acquires()
		s.happens("the hand-over", shortTTL, sent, answered, bob.endedAt)
	}},
	{"P3 P4 without a waiter it becomes idle", func(s *scene) {
		deploy := s.mutex("deploy")
		alice := deploy.party("alice")
		sent := time.Now()
		alice.acquires(ttl(shortTTL), transition(shortTransition))
		answered := time.Now()
		deploy.becomesIdle()
		s.happens("the end", shortWindow, sent, answered, time.Now())
	}},
	{"P3 guards keep it for as long as they come", func(s *scene) {
		deploy := s.mutex("deploy")
		alice := deploy.party("alice")
		first := alice.acquires(ttl(keptTTL), transition(keptTransition))
		deploy.party("bob").waits()
		for range keepingGuards {
			time.Sleep(keepingEvery)
			got := alice.guards()
			s.isFresh(got, keptTTL, keptTransition)
			if got.Fence != first.Fence {
				s.t.Fatalf("got fence %d, want still %d", got.Fence, first.Fence)
			}
		}
		deploy.isOwnedBy("alice")
	}},
	{"windows start again and are never added up", func(s *scene) {
		deploy := s.mutex("deploy")
		alice := deploy.party("alice")
		alice.acquires()
		bob := deploy.party("bob").waits()
		alice.acquires(ttl(shortTTL), transition(shortTransition))
		sent := time.Now()
		for range 5 {
			sent = time.Now()
			alice.guards()
		}
		answered := time.Now()
		bob.acquires()
		s.happens("the hand-over", shortWindow, sent, answered, bob.endedAt)
	}},
	{"P2 in the transition window the owner alone may go on", func(s *scene) {
		deploy := s.mutex("deploy")
		alice := deploy.party("alice")
		first := alice.acquires(ttl(shortTTL), transition(10*time.Second))
		if got := deploy.reads().State; got != service.StateTTL {
			s.t.Errorf("got state %q, want ttl", got)
		}
		s.eventually("the transition window", func() bool { return deploy.reads().State == service.StateTransition })
		if e := deploy.party("bob").isRefused(service.KindLocked); e.Holder == nil || e.Holder.TTLRemaining != 0 {
			s.t.Errorf("got holder %+v, want alice without ttl", e.Holder)
		}
		if got := alice.guards(); got.Fence != first.Fence {
			s.t.Errorf("got fence %d, want still %d", got.Fence, first.Fence)
		}
	}},
	{"a guard after both windows is refused, nobody waiting", func(s *scene) {
		deploy := s.mutex("deploy")
		alice := deploy.party("alice")
		first := alice.acquires(ttl(100*time.Millisecond), transition(0))
		deploy.becomesIdle()
		if e := alice.guardIsRefused(service.KindNotOwner); e.Ended != service.EndedExpired || e.Fence != first.Fence {
			s.t.Errorf("got ended %q of %d, want expired of %d", e.Ended, e.Fence, first.Fence)
		}
		deploy.isIdle()
	}},
	{"a wait is granted the whole of its windows", func(s *scene) {
		deploy := s.mutex("deploy")
		alice, bob := deploy.party("alice"), deploy.party("bob")
		alice.acquires()
		wait := bob.waits(ttl(shortTTL), transition(shortTransition))
		time.Sleep(3 * shortTTL)
		alice.releases()
		s.isFresh(wait.acquires(), shortTTL, shortTransition)
	}},
	{"a guard renews by the smaller of asked then and declared now", func(s *scene) {
		deploy := s.mutex("deploy")
		alice := deploy.party("alice")
		alice.acquires(ttl(20*time.Second), transition(2*time.Second))
		deploy.declares(service.Settings{TTL: 5 * time.Second, Transition: 3 * time.Second})
		s.isFresh(alice.guards(), 5*time.Second, 2*time.Second)
		deploy.declares(service.Settings{TTL: time.Minute, Transition: time.Second})
		s.isFresh(alice.guards(), 20*time.Second, time.Second)
	}},
	{"a guard of who asked for nothing follows what is declared", func(s *scene) {
		deploy := s.mutex("deploy")
		deploy.declares(service.Settings{TTL: 5 * time.Second, Transition: 3 * time.Second})
		alice := deploy.party("alice")
		alice.acquires()
		deploy.declares(service.Settings{TTL: time.Minute, Transition: 0})
		s.isFresh(alice.guards(), time.Minute, 0)
	}},
	{"a wait is granted by what is declared when it is granted", func(s *scene) {
		deploy := s.mutex("deploy")
		alice, bob, carol := deploy.party("alice"), deploy.party("bob"), deploy.party("carol")
		alice.acquires()
		asked, silent := bob.waits(ttl(20*time.Second), transition(time.Second)), carol.waits()
		deploy.declares(service.Settings{TTL: 5 * time.Second, Transition: 3 * time.Second})
		alice.releases()
		s.isFresh(asked.acquires(), 5*time.Second, time.Second)
		bob.releases()
		s.isFresh(silent.acquires(), 5*time.Second, 3*time.Second)
	}},
}

var maxHoldClauses = []clause{
	{"max_hold ends the windows at that age", func(s *scene) {
		deploy := s.mutex("deploy")
		const maxHold = 900 * time.Millisecond
		deploy.declares(service.Settings{TTL: 800 * time.Millisecond, Transition: 400 * time.Millisecond, MaxHold: maxHold})
		alice := deploy.party("alice")
		sent := time.Now()
		first := alice.acquires()
		answered := time.Now()
		if first.TransitionRemaining > maxHold {
			s.t.Errorf("got %v of both windows, want at most %v", first.TransitionRemaining, maxHold)
		}
		bob := deploy.party("bob").waits()
		time.Sleep(shortTTL)
		if got := alice.guards(); got.TransitionRemaining > maxHold-shortTTL || got.TTLRemaining > got.TransitionRemaining {
			s.t.Errorf("got %v and %v, want at most the %v left", got.TTLRemaining, got.TransitionRemaining, maxHold-shortTTL)
		}
		bob.acquires()
		s.happens("the hand-over", maxHold, sent, answered, bob.endedAt)
	}},
	{"max_hold refuses a guard after it", func(s *scene) {
		deploy := s.mutex("deploy")
		deploy.declares(service.Settings{TTL: 10 * time.Second, MaxHold: 100 * time.Millisecond})
		alice := deploy.party("alice")
		alice.acquires()
		deploy.becomesIdle()
		alice.guardIsRefused(service.KindMaxHoldReached)
		if e := alice.isRefused(service.KindTokenSpent); e.Ended != service.EndedExpired {
			s.t.Errorf("got ended %q, want expired", e.Ended)
		}
		if e := alice.releaseIsRefused(service.KindNotOwner); e.Ended != service.EndedExpired {
			s.t.Errorf("got ended %q, want expired", e.Ended)
		}
	}},
	{"max_hold declared later holds from the next guard on", func(s *scene) {
		deploy := s.mutex("deploy")
		alice := deploy.party("alice")
		alice.acquires()
		time.Sleep(100 * time.Millisecond)
		deploy.declares(service.Settings{TTL: 10 * time.Second, MaxHold: 50 * time.Millisecond})
		deploy.isOwnedBy("alice")
		alice.guardIsRefused(service.KindMaxHoldReached)
		alice.isRefused(service.KindMaxHoldReached)
		deploy.isOwnedBy("alice") // a refusal changes nothing
		alice.releases()
	}},
}
