package servicetest

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// scene is the stage of one clause: a store, and mutexes that are its own.
type scene struct {
	t      *testing.T
	open   func(deny bool) service.Store
	store  service.Store
	late   time.Duration
	bubble bool
	prefix string
}

// patient bounds what is waited for in the firm belief that it happens.
const patient = 10 * time.Second

// denying goes on with a store that knows declared mutexes only.
func (s *scene) denying() { s.store = s.open(true) }

// takesMinutes skips a clause that nobody wants to wait for.
func (s *scene) takesMinutes() {
	if !s.bubble {
		s.t.Skip("takes minutes, so it runs in bubbles only")
	}
}

// mutex is a mutex that no other clause uses.
func (s *scene) mutex(name string) *lock {
	return &lock{scene: s, name: service.Name(s.prefix + name)}
}

// eventually waits until cond holds.
func (s *scene) eventually(what string, cond func() bool) {
	s.t.Helper()
	for end := time.Now().Add(patient); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("not within %v: %s", patient, what)
		}
	}
}

// remains sees to it that cond goes on to hold. It is for what must not
// happen, and so has nothing to wait for.
func (s *scene) remains(what string, cond func() bool) {
	s.t.Helper()
	for end := time.Now().Add(200 * time.Millisecond); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if !cond() {
			s.t.Fatalf("no longer: %s", what)
		}
	}
}

// happens checks that what was seen came d after a call, and neither early,
// counted from when the call was sent, nor late, from when it was answered.
func (s *scene) happens(what string, d time.Duration, sent, answered, seen time.Time) {
	s.t.Helper()
	if early := seen.Sub(sent); early < d {
		s.t.Errorf("%s: got after %v, want not before %v", what, early, d)
	}
	if late := seen.Sub(answered); late > d+s.late {
		s.t.Errorf("%s: got after %v, want at most %v", what, late, d+s.late)
	}
}

// kind checks that err is of a kind, and returns it.
func (s *scene) kind(err error, want service.Kind) *service.Error {
	s.t.Helper()
	var e *service.Error
	if !errors.As(err, &e) {
		s.t.Fatalf("got error %v, want kind %q", err, want)
	}
	if e.Kind != want {
		s.t.Fatalf("got error %v, want kind %q", e, want)
	}
	return e
}

func (s *scene) ok(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// lock is a mutex on the scene.
type lock struct {
	*scene
	name service.Name
}

// party is a contender with a token of its own.
func (l *lock) party(contender string) *party {
	token := service.Token(rand.Text())
	return &party{lock: l, who: service.NewParty(service.ContenderID(contender), token)}
}

func (l *lock) reads() service.Mutex {
	l.t.Helper()
	m, err := l.store.Mutex(l.t.Context(), service.ReadRequest{Mutex: l.name})
	l.ok(err)
	return m
}

func (l *lock) fence() service.Fence {
	l.t.Helper()
	f, err := l.store.Check(l.t.Context(), l.name)
	l.ok(err)
	return f
}

// owner is who owns it, "" for nobody.
func (l *lock) owner() string {
	l.t.Helper()
	m := l.reads()
	if m.Owner == nil {
		return ""
	}
	return string(m.Owner.Contender)
}

func (l *lock) isOwnedBy(want string) {
	l.t.Helper()
	if got := l.owner(); got != want {
		l.t.Fatalf("got owner %q, want %q", got, want)
	}
}

func (l *lock) isIdle() {
	l.t.Helper()
	if m := l.reads(); m.State != service.StateIdle || m.Owner != nil {
		l.t.Fatalf("got state %s with owner %+v, want idle", m.State, m.Owner)
	}
	if f := l.fence(); f != 0 {
		l.t.Fatalf("got fence %d of an idle mutex, want 0", f)
	}
}

func (l *lock) becomesIdle() {
	l.t.Helper()
	l.eventually("the mutex is idle", func() bool { return l.owner() == "" })
}

func (l *lock) line() []service.Waiter {
	l.t.Helper()
	line, err := l.store.Waiters(l.t.Context(), l.name)
	l.ok(err)
	return line
}

// present are the waiters present, in order.
func (l *lock) present() []string { return l.waiters(true) }

// away are those who keep a place only.
func (l *lock) away() []string { return l.waiters(false) }

func (l *lock) waiters(present bool) []string {
	l.t.Helper()
	names := []string{}
	for _, w := range l.line() {
		if w.Present == present {
			names = append(names, string(w.Contender))
		}
	}
	return names
}

func (l *lock) lineIs(want ...string) {
	l.t.Helper()
	if got := l.present(); !slices.Equal(got, want) {
		l.t.Fatalf("got line %v, want %v", got, want)
	}
}

func (l *lock) declares(settings service.Settings) service.Mutex {
	l.t.Helper()
	m, _, err := l.store.Declare(l.t.Context(), service.DeclareRequest{Mutex: l.name, Settings: settings})
	l.ok(err)
	return m
}

func (l *lock) breaks(f service.Fence) service.PastOwnership {
	l.t.Helper()
	past, err := l.store.Break(l.t.Context(), service.BreakRequest{Mutex: l.name, Fence: f, Reason: "stuck"})
	l.ok(err)
	return past
}

func (l *lock) history() []service.PastOwnership {
	l.t.Helper()
	past, err := l.store.History(l.t.Context(), l.name)
	l.ok(err)
	return past
}

// cancelled returns a context that has ended with a cause, and the cause.
func (s *scene) cancelled() (context.Context, error) {
	gone := errors.New("the caller went away")
	ctx, cancel := context.WithCancelCause(s.t.Context())
	cancel(gone)
	return ctx, gone
}
