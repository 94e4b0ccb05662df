package servicetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-lock/holdfast/internal/service"
)

var readClauses = []clause{
	{"a mutex that nobody used is idle", func(s *scene) {
		m := s.mutex("deploy").reads()
		if m.State != service.StateIdle || m.Owner != nil || m.Waiters != 0 || m.Declaration != 0 {
			s.t.Errorf("got %+v, want idle and ad hoc", m)
		}
		if m.Settings.TTL != policy(false).DefaultTTL || m.Settings.Transition != policy(false).DefaultTransition {
			s.t.Errorf("got settings %+v, want the defaults", m.Settings)
		}
	}},
	{"P10 a mutex reads as it is", func(s *scene) {
		deploy := s.mutex("deploy")
		alice := deploy.party("alice")
		held := alice.acquires(ttl(8*time.Second), transition(4*time.Second), metadata("job", "17"))
		deploy.party("bob").waits()
		m := deploy.reads()
		if m.Name != deploy.name || m.State != service.StateTTL || m.Waiters != 1 || m.Owner == nil {
			s.t.Fatalf("got %+v, want owned, with one waiter", m)
		}
		s.isFresh(*m.Owner, 8*time.Second, 4*time.Second)
		if m.Owner.Contender != "alice" || m.Owner.Fence != held.Fence || m.Owner.Metadata["job"] != "17" {
			s.t.Errorf("got owner %+v, want %+v", m.Owner, held)
		}
	}},
	{"every change makes the revision larger", func(s *scene) {
		deploy := s.mutex("deploy")
		alice, bob := deploy.party("alice"), deploy.party("bob")
		last := deploy.reads().Revision
		for _, change := range []struct {
			what string
			do   func()
		}{
			{"a declaration", func() { deploy.declares(service.Settings{TTL: 10 * time.Second}) }},
			{"an acquire", func() { alice.acquires() }},
			{"a guard", func() { alice.guards() }},
			{"a waiter", func() { bob.waits() }},
			{"a waiter that left", func() { bob.releaseSays(service.LeftLine, "") }},
			{"a release", func() { alice.releases() }},
			{"a removal", func() { s.ok(s.store.Remove(s.t.Context(), service.RemoveRequest{Mutex: deploy.name})) }},
		} {
			change.do()
			got := deploy.reads().Revision
			if got <= last {
				s.t.Errorf("after %s: got revision %d, want above %d", change.what, got, last)
			}
			last = got
		}
		if again := deploy.reads().Revision; again != last {
			s.t.Errorf("got revision %d without a change, want %d", again, last)
		}
	}},
	{"a blocking read waits for something newer", func(s *scene) {
		deploy := s.mutex("deploy")
		alice := deploy.party("alice")
		for _, change := range []func(){func() { alice.acquires() }, func() { alice.guards() }, alice.releases} {
			seen := deploy.reads().Revision
			read := deploy.readsAfter(seen, time.Minute)
			s.remains("unanswered", func() bool { return !read.hasEnded() })
			change()
			if got := read.answer(); got.Revision <= seen {
				s.t.Errorf("got revision %d, want above %d", got.Revision, seen)
			}
		}
	}},
	{"a blocking read is answered at once when there is something newer", func(s *scene) {
		deploy := s.mutex("deploy")
		seen := deploy.reads().Revision
		deploy.party("alice").acquires()
		if got := deploy.readsAfter(seen, time.Hour).answer(); got.Owner == nil {
			s.t.Errorf("got %+v, want an owner", got)
		}
	}},
	{"a blocking read ends with the state when its wait is over", func(s *scene) {
		deploy := s.mutex("deploy")
		deploy.party("alice").acquires()
		seen := deploy.reads()
		began := time.Now()
		got := deploy.readsAfter(seen.Revision, 200*time.Millisecond).answer()
		s.happens("the end of the wait", 200*time.Millisecond, began, began, time.Now())
		if got.Revision != seen.Revision || got.Owner == nil {
			s.t.Errorf("got %+v, want %+v", got, seen)
		}
	}},
	{"a blocking read of the future is answered at once", func(s *scene) {
		deploy := s.mutex("deploy")
		deploy.party("alice").acquires()
		got := deploy.readsAfter(deploy.reads().Revision+1_000_000_000, time.Hour).answer()
		if got.Owner == nil {
			s.t.Errorf("got %+v, want an owner", got)
		}
	}},
	{"a blocking read whose caller is gone ends", func(s *scene) {
		deploy := s.mutex("deploy")
		ctx, gone := s.cancelled()
		after := deploy.reads().Revision
		_, err := s.store.Mutex(ctx, service.ReadRequest{Mutex: deploy.name, After: &after, Wait: time.Hour})
		if !errors.Is(err, gone) {
			s.t.Errorf("got error %v, want %v", err, gone)
		}
	}},
	{"history has the last ten of a declared mutex", func(s *scene) {
		deploy := s.mutex("deploy")
		deploy.declares(service.Settings{TTL: 10 * time.Second})
		var fences []service.Fence
		for i := range 12 {
			p := deploy.party(fmt.Sprintf("alice-%d", i))
			fences = append(fences, p.acquires().Fence)
			p.releases()
		}
		deploy.party("bob").acquires() // not over, so not history
		got := deploy.history()
		if len(got) != 10 {
			s.t.Fatalf("got %d, want 10", len(got))
		}
		for i, past := range got {
			want := fences[len(fences)-1-i]
			if past.Fence != want || past.Ended != service.EndedReleased || past.EndedAt.Before(past.AcquiredAt) {
				s.t.Errorf("got %+v at %d, want %d, released", past, i, want)
			}
		}
	}},
	{"history of an ad hoc mutex is what is remembered", func(s *scene) {
		deploy := s.mutex("deploy")
		if got := deploy.history(); len(got) != 0 {
			s.t.Errorf("got %+v before use, want none", got)
		}
		alice, bob, carol := deploy.party("alice"), deploy.party("bob"), deploy.party("carol")
		alice.acquires()
		bob.waits()
		bob.releaseSays(service.LeftLine, "") // a wait is no ownership
		alice.releases()
		carol.acquires(ttl(100*time.Millisecond), transition(0))
		deploy.becomesIdle()
		got := deploy.history()
		if len(got) != 2 || got[0].Contender != "carol" || got[0].Ended != service.EndedExpired || got[1].Contender != "alice" {
			s.t.Errorf("got %+v, want carol's that expired and alice's", got)
		}
	}},
	{"the store is ready", func(s *scene) { s.ok(s.store.Ready(s.t.Context())) }},
}

// blockedRead is a blocking read in a goroutine of its own.
type blockedRead struct {
	lock *lock
	done chan struct{}
	got  service.Mutex // set when done is closed
	err  error
}

func (l *lock) readsAfter(seen service.Revision, wait time.Duration) *blockedRead {
	r := &blockedRead{lock: l, done: make(chan struct{})}
	ctx := l.t.Context() // ends before the clean-up
	l.t.Cleanup(func() { <-r.done })
	go func() {
		defer close(r.done)
		r.got, r.err = l.store.Mutex(ctx, service.ReadRequest{Mutex: l.name, After: &seen, Wait: wait})
	}()
	return r
}

func (r *blockedRead) hasEnded() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

func (r *blockedRead) answer() service.Mutex {
	r.lock.t.Helper()
	select {
	case <-r.done:
	case <-time.After(patient):
		r.lock.t.Fatalf("the read is not answered within %v", patient)
	}
	r.lock.ok(r.err)
	return r.got
}
