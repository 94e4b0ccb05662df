package servicetest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// party is a contender with its token, and what it does.
type party struct {
	lock *lock
	who  service.Party
}

// mod changes an acquire.
type mod func(*service.AcquireRequest)

func ttl(d time.Duration) mod {
	return func(r *service.AcquireRequest) { r.Asked.TTL = &d }
}

func transition(d time.Duration) mod {
	return func(r *service.AcquireRequest) { r.Asked.Transition = &d }
}

func metadata(k, v string) mod {
	return func(r *service.AcquireRequest) { r.Metadata = map[string]string{k: v} }
}

func (p *party) name() string { return string(p.who.Contender) }

// withNewToken is the same contender as another party.
func (p *party) withNewToken() *party { return p.lock.party(p.name()) }

func (p *party) request(wait time.Duration, mods []mod) service.AcquireRequest {
	req := service.AcquireRequest{Mutex: p.lock.name, Party: p.who, Wait: wait}
	for _, m := range mods {
		m(&req)
	}
	return req
}

// tries asks without a wait, and tells nobody what came of it.
func (p *party) tries(mods ...mod) (service.Grant, error) {
	return p.lock.store.Acquire(p.lock.t.Context(), p.request(0, mods))
}

// acquires asks without a wait, and owns.
func (p *party) acquires(mods ...mod) service.Ownership {
	p.lock.t.Helper()
	return p.isGranted(mods...).told()
}

// hasOwned is an ownership that ended so.
func (p *party) hasOwned(how service.Ending) service.Ownership {
	p.lock.t.Helper()
	switch how {
	case service.EndedReleased:
		o := p.acquires()
		p.releases()
		return o
	case service.EndedBroken:
		o := p.acquires()
		p.lock.breaks(o.Fence)
		return o
	default:
		o := p.acquires(ttl(100*time.Millisecond), transition(0))
		p.lock.becomesIdle()
		return o
	}
}

// isGranted asks without a wait, owns, and has not been told yet.
func (p *party) isGranted(mods ...mod) untold {
	p.lock.t.Helper()
	g, err := p.tries(mods...)
	if err != nil {
		p.lock.t.Fatalf("%s acquires: %v", p.name(), err)
	}
	return untold{g}
}

// isRefused asks without a wait, in vain.
func (p *party) isRefused(want service.Kind, mods ...mod) *service.Error {
	p.lock.t.Helper()
	g, err := p.tries(mods...)
	if err == nil {
		p.lock.t.Fatalf("%s acquires: got %+v, want kind %q", p.name(), g.Ownership(), want)
	}
	return p.lock.kind(err, want)
}

// untold is a grant whose client knows nothing of it.
type untold struct{ service.Grant }

func (u untold) told() service.Ownership {
	u.Told()
	return u.Ownership()
}

func (p *party) guard() (service.Ownership, error) {
	return p.lock.store.Guard(p.lock.t.Context(), service.GuardRequest{Mutex: p.lock.name, Party: p.who})
}

func (p *party) guards() service.Ownership {
	p.lock.t.Helper()
	o, err := p.guard()
	if err != nil {
		p.lock.t.Fatalf("%s guards: %v", p.name(), err)
	}
	return o
}

func (p *party) guardIsRefused(want service.Kind) *service.Error {
	p.lock.t.Helper()
	_, err := p.guard()
	return p.lock.kind(err, want)
}

func (p *party) release(operation string) (service.Released, error) {
	req := service.ReleaseRequest{Mutex: p.lock.name, Party: p.who, OperationID: operation}
	return p.lock.store.Release(p.lock.t.Context(), req)
}

// releases frees the mutex.
func (p *party) releases() {
	p.lock.t.Helper()
	p.releaseSays(service.ReleasedNow, "")
}

func (p *party) releaseSays(want service.Released, operation string) {
	p.lock.t.Helper()
	got, err := p.release(operation)
	if err != nil {
		p.lock.t.Fatalf("%s releases: %v", p.name(), err)
	}
	if got != want {
		p.lock.t.Fatalf("%s releases: got %d, want %d", p.name(), got, want)
	}
}

func (p *party) releaseIsRefused(want service.Kind) *service.Error {
	p.lock.t.Helper()
	_, err := p.release("")
	return p.lock.kind(err, want)
}

// isPresent reports whether the line shows the party as present.
func (p *party) isPresent() bool {
	p.lock.t.Helper()
	return slices.Contains(p.lock.present(), p.name())
}

// polling is a wait of a party, in a goroutine of its own.
type polling struct {
	party   *party
	hangUp  context.CancelCauseFunc
	done    chan struct{}
	grant   service.Grant // the fields below are set when done is closed
	err     error
	endedAt time.Time
}

// polls asks with a wait.
func (p *party) polls(wait time.Duration, mods ...mod) *polling {
	ctx, hangUp := context.WithCancelCause(p.lock.t.Context())
	w := &polling{party: p, hangUp: hangUp, done: make(chan struct{})}
	p.lock.t.Cleanup(func() { hangUp(nil); <-w.done })
	store, req := p.lock.store, p.request(wait, mods)
	go func() {
		defer close(w.done)
		w.grant, w.err = store.Acquire(ctx, req)
		w.endedAt = time.Now()
	}()
	return w
}

// waits polls for long, and is in line when it returns, or has been already.
func (p *party) waits(mods ...mod) *polling {
	p.lock.t.Helper()
	w := p.polls(time.Minute, mods...)
	p.lock.eventually(p.name()+" is in line", func() bool { return p.isPresent() || w.hasEnded() })
	return w
}

func (w *polling) hasEnded() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// isGranted returns what the wait brought, before its client is told.
func (w *polling) isGranted() untold {
	w.party.lock.t.Helper()
	w.ends()
	if w.err != nil {
		w.party.lock.t.Fatalf("%s waits: %v", w.party.name(), w.err)
	}
	return untold{w.grant}
}

// acquires is a wait that ends with the ownership.
func (w *polling) acquires() service.Ownership {
	w.party.lock.t.Helper()
	return w.isGranted().told()
}

// fails is a wait that ends in vain.
func (w *polling) fails(want service.Kind) *service.Error {
	w.party.lock.t.Helper()
	w.ends()
	if w.err == nil {
		w.party.lock.t.Fatalf("%s waits: got %+v, want kind %q", w.party.name(), w.grant.Ownership(), want)
	}
	return w.party.lock.kind(w.err, want)
}

// isCancelled hangs up, and sees that the wait ends with the cause.
func (w *polling) isCancelled() {
	w.party.lock.t.Helper()
	gone := errors.New("the client hung up")
	w.hangUp(gone)
	w.ends()
	if !errors.Is(w.err, gone) {
		w.party.lock.t.Fatalf("%s hangs up: got error %v, want %v", w.party.name(), w.err, gone)
	}
}

func (w *polling) ends() {
	w.party.lock.t.Helper()
	select {
	case <-w.done:
	case <-time.After(patient + time.Minute):
		w.party.lock.t.Fatalf("the wait of %s does not end", w.party.name())
	}
}
