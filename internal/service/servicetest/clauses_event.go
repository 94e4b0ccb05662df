package servicetest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-lock/holdfast/internal/service"
)

var eventClauses = []clause{
	{"events tell the story of a mutex", func(s *scene) {
		deploy := s.mutex("deploy")
		story := deploy.listens(deploy.now())
		alice, bob, carol := deploy.party("alice"), deploy.party("bob"), deploy.party("carol")

		first := alice.acquires()
		story.tells(service.EventAcquired, "alice", first.Fence)
		alice.guards()
		story.tells(service.EventGuarded, "alice", first.Fence)
		wait := bob.waits()
		story.tells(service.EventQueued, "bob", 0)
		alice.releases()
		second := wait.acquires()
		released := story.tells(service.EventReleased, "alice", first.Fence)
		acquired := story.tells(service.EventAcquired, "bob", second.Fence)
		if released.ID.Revision != acquired.ID.Revision || released.ID.Index >= acquired.ID.Index {
			s.t.Errorf("got ids %v and %v, want one revision, in order", released.ID, acquired.ID)
		}
		carol.waits()
		story.tells(service.EventQueued, "carol", 0)
		carol.releaseSays(service.LeftLine, "")
		story.tells(service.EventLeft, "carol", 0)
		deploy.breaks(second.Fence)
		if broken := story.tells(service.EventBroken, "bob", second.Fence); broken.Reason != "stuck" {
			s.t.Errorf("got reason %q, want stuck", broken.Reason)
		}
	}},
	{"events tell of windows that ended", func(s *scene) {
		deploy := s.mutex("deploy")
		story := deploy.listens(deploy.now())
		held := deploy.party("alice").acquires(ttl(shortTTL), transition(time.Second))
		story.tells(service.EventAcquired, "alice", held.Fence)
		story.tells(service.EventTransition, "alice", held.Fence)
		if got := deploy.reads().State; got != service.StateTransition {
			s.t.Errorf("got state %q, want transition", got)
		}
		story.tells(service.EventExpired, "alice", held.Fence)
		deploy.isIdle()
	}},
	{"events do not tell of a transition window that a guard prevented", func(s *scene) {
		deploy := s.mutex("deploy")
		story := deploy.listens(deploy.now())
		alice := deploy.party("alice")
		held := alice.acquires(ttl(keptTTL), transition(keptTransition))
		story.tells(service.EventAcquired, "alice", held.Fence)
		for range keepingGuards {
			time.Sleep(keepingEvery)
			alice.guards()
			story.tells(service.EventGuarded, "alice", held.Fence)
		}
		alice.releases()
		story.tells(service.EventReleased, "alice", held.Fence)
	}},
	{"events tell of a place and not of its polls", func(s *scene) {
		deploy := s.mutex("deploy")
		story := deploy.listens(deploy.now())
		alice, bob := deploy.party("alice"), deploy.party("bob")
		story.tells(service.EventAcquired, "alice", alice.acquires().Fence)
		bob.waits().isCancelled()
		story.tells(service.EventQueued, "bob", 0)
		bob.waits().isCancelled()
		bob.waits()
		bob.releaseSays(service.LeftLine, "")
		story.tells(service.EventLeft, "bob", 0)
	}},
	{"events tell of a lost grant as one that ended", func(s *scene) {
		deploy := s.mutex("deploy")
		story := deploy.listens(deploy.now())
		alice, bob := deploy.party("alice"), deploy.party("bob")
		first := alice.acquires()
		lost := bob.waits()
		carol := deploy.party("carol").waits()
		alice.releases()
		g := lost.isGranted()
		g.Lost()
		second := carol.acquires()
		story.tells(service.EventAcquired, "alice", first.Fence)
		story.tells(service.EventQueued, "bob", 0)
		story.tells(service.EventQueued, "carol", 0)
		story.tells(service.EventReleased, "alice", first.Fence)
		story.tells(service.EventAcquired, "bob", g.Ownership().Fence)
		story.tells(service.EventExpired, "bob", g.Ownership().Fence)
		story.tells(service.EventAcquired, "carol", second.Fence)
	}},
	{"events can be resumed after each", func(s *scene) {
		deploy := s.mutex("deploy")
		start := deploy.now()
		alice, bob := deploy.party("alice"), deploy.party("bob")
		alice.acquires()
		wait := bob.waits()
		alice.releases()
		wait.acquires()
		bob.guards()
		bob.releases()
		want := []service.EventType{
			service.EventAcquired, service.EventQueued, service.EventReleased,
			service.EventAcquired, service.EventGuarded, service.EventReleased,
		}
		ids := []service.EventID{start}
		for _, ev := range deploy.listens(start).next(len(want)) {
			ids = append(ids, *ev.ID)
		}
		for i, id := range ids[:len(want)] {
			if got := types(deploy.listens(id).next(len(want) - i)); !slices.Equal(got, want[i:]) {
				s.t.Errorf("after %d: got %v, want %v", i, got, want[i:])
			}
		}
	}},
	{"events without a place begin now", func(s *scene) {
		deploy := s.mutex("deploy")
		alice := deploy.party("alice")
		alice.acquires()
		story := deploy.hears(nil)
		// There is no telling when a reader has begun, so guard until it hears.
		s.eventually("an event", func() bool { alice.guards(); return len(story.events) > 0 })
		if ev := story.next(1)[0]; ev.Type != service.EventGuarded {
			s.t.Errorf("got %+v, want a guard: the rest came before", ev)
		}
	}},
	{"events are of one mutex", func(s *scene) {
		deploy, other := s.mutex("deploy"), s.mutex("deploy-2")
		story := deploy.listens(deploy.now())
		other.party("bob").acquires()
		held := deploy.party("alice").acquires()
		story.tells(service.EventAcquired, "alice", held.Fence)
	}},
	{"events end with the cause of their context", func(s *scene) {
		deploy := s.mutex("deploy")
		ctx, gone := s.cancelled()
		var last error
		for _, err := range s.store.Events(ctx, deploy.name, nil) {
			last = err
		}
		if !errors.Is(last, gone) {
			s.t.Errorf("got error %v, want %v", last, gone)
		}
	}},
}

// story is what a reader of events hears, in a goroutine of its own.
type story struct {
	lock   *lock
	events chan service.Event
}

// now is a place in the events before which all is known.
func (l *lock) now() service.EventID {
	l.t.Helper()
	// The revision of a mutex that was never used may be older than what the
	// store still remembers.
	l.declares(service.Settings{TTL: time.Minute, Transition: time.Minute})
	return service.EventID{Revision: l.reads().Revision, Index: 1000}
}

func (l *lock) listens(after service.EventID) *story { return l.hears(&after) }

func (l *lock) hears(after *service.EventID) *story {
	st := &story{lock: l, events: make(chan service.Event, 1000)}
	ctx, stop := context.WithCancel(l.t.Context())
	done := make(chan struct{})
	l.t.Cleanup(func() { stop(); <-done })
	go func() {
		defer close(done)
		for ev, err := range l.store.Events(ctx, l.name, after) {
			if err != nil {
				if ctx.Err() == nil {
					l.t.Errorf("events: %v", err)
				}
				return
			}
			st.events <- ev
		}
	}()
	return st
}

// next are the next n events.
func (st *story) next(n int) []service.Event {
	st.lock.t.Helper()
	var all []service.Event
	for range n {
		select {
		case ev := <-st.events:
			all = append(all, ev)
		case <-time.After(patient):
			st.lock.t.Fatalf("got %v and nothing more within %v, want %d events", types(all), patient, n)
		}
	}
	return all
}

// tells checks the next event.
func (st *story) tells(want service.EventType, who service.ContenderID, fence service.Fence) service.Event {
	st.lock.t.Helper()
	ev := st.next(1)[0]
	if ev.Type != want || ev.Contender != who || ev.Fence != fence || ev.Mutex != st.lock.name {
		st.lock.t.Fatalf("got event %+v, want %s of %s, fence %d", ev, want, who, fence)
	}
	if (ev.ID == nil) != (want == service.EventTransition) {
		st.lock.t.Fatalf("got id %v of %s, want one for all but transition", ev.ID, want)
	}
	return ev
}

func types(events []service.Event) []service.EventType {
	all := make([]service.EventType, 0, len(events))
	for _, ev := range events {
		all = append(all, ev.Type)
	}
	return all
}
