package httpapi

import (
	"context"
	"iter"
	"sync/atomic"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// failing is a store whose every call ends with the same error.
type failing struct {
	err error
}

var _ service.Store = (*failing)(nil)

func (f *failing) Acquire(context.Context, service.AcquireRequest) (service.Grant, error) {
	return nil, f.err
}

func (f *failing) Guard(context.Context, service.GuardRequest) (service.Ownership, error) {
	return service.Ownership{}, f.err
}

func (f *failing) GuardMany(_ context.Context, reqs []service.GuardRequest) []service.GuardResult {
	results := make([]service.GuardResult, len(reqs))
	for i := range results {
		results[i].Err = f.err
	}
	return results
}

func (f *failing) Release(context.Context, service.ReleaseRequest) (service.Released, error) {
	return 0, f.err
}

func (f *failing) Check(context.Context, service.Name) (service.Fence, error) { return 0, f.err }

func (f *failing) Mutex(context.Context, service.ReadRequest) (service.Mutex, error) {
	return service.Mutex{}, f.err
}

func (f *failing) Waiters(context.Context, service.Name) ([]service.Waiter, error) {
	return nil, f.err
}

func (f *failing) History(context.Context, service.Name) ([]service.PastOwnership, error) {
	return nil, f.err
}

func (f *failing) Events(context.Context, service.Name, *service.EventID) iter.Seq2[service.Event, error] {
	return func(yield func(service.Event, error) bool) { yield(service.Event{}, f.err) }
}

func (f *failing) Break(context.Context, service.BreakRequest) (service.PastOwnership, error) {
	return service.PastOwnership{}, f.err
}

func (f *failing) Declare(context.Context, service.DeclareRequest) (service.Mutex, bool, error) {
	return service.Mutex{}, false, f.err
}

func (f *failing) Remove(context.Context, service.RemoveRequest) error { return f.err }

func (f *failing) List(context.Context, service.ListRequest) (service.Page, error) {
	return service.Page{}, f.err
}

func (f *failing) Ready(context.Context) error { return f.err }

// panicking is a store that panics on acquire.
type panicking struct{ failing }

func (panicking) Acquire(context.Context, service.AcquireRequest) (service.Grant, error) {
	panic("a defect")
}

// granting is a store that grants everything, and counts what it is told.
type granting struct {
	failing
	before func() // called before the grant is returned; may be nil
	broken bool   // the grant's ownership panics
	told   atomic.Int64
	lost   atomic.Int64
}

func (g *granting) Acquire(_ context.Context, req service.AcquireRequest) (service.Grant, error) {
	if g.before != nil {
		g.before()
	}
	return &countedGrant{store: g, who: req.Party.Contender}, nil
}

type countedGrant struct {
	store *granting
	who   service.ContenderID
}

func (g *countedGrant) Told() { g.store.told.Add(1) }
func (g *countedGrant) Lost() { g.store.lost.Add(1) }

func (g *countedGrant) Ownership() service.Ownership {
	if g.store.broken {
		panic("a defect")
	}
	t := defaultPolicy
	return service.Ownership{
		Contender: g.who, Fence: 1,
		TTL: t.DefaultTTL, Transition: t.DefaultTransition,
		TTLRemaining: t.DefaultTTL, TransitionRemaining: t.DefaultTTL + t.DefaultTransition,
	}
}
