package servicetest

import (
	"context"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// LoseReplies returns a store that performs every write on store and answers
// KindOutcomeUnknown, as one does whose etcd went silent in that moment. What
// nobody was told of is undone.
func LoseReplies(store service.Store) service.Store { return lossy{store} }

type lossy struct{ service.Store }

func lost(name service.Name) error {
	return &service.Error{Kind: service.KindOutcomeUnknown, Mutex: name}
}

// Acquire implements service.Store.
func (l lossy) Acquire(ctx context.Context, req service.AcquireRequest) (service.Grant, error) {
	if g, err := l.Store.Acquire(ctx, req); err == nil {
		g.Lost()
	}
	return nil, lost(req.Mutex)
}

// Guard implements service.Store.
func (l lossy) Guard(ctx context.Context, req service.GuardRequest) (service.Ownership, error) {
	_, _ = l.Store.Guard(ctx, req)
	return service.Ownership{}, lost(req.Mutex)
}

// GuardMany implements service.Store.
func (l lossy) GuardMany(ctx context.Context, reqs []service.GuardRequest) []service.GuardResult {
	results := l.Store.GuardMany(ctx, reqs)
	for i := range results {
		results[i] = service.GuardResult{Err: lost(reqs[i].Mutex)}
	}
	return results
}

// Release implements service.Store.
func (l lossy) Release(ctx context.Context, req service.ReleaseRequest) (service.Released, error) {
	_, _ = l.Store.Release(ctx, req)
	return 0, lost(req.Mutex)
}

// Break implements service.Store.
func (l lossy) Break(ctx context.Context, req service.BreakRequest) (service.PastOwnership, error) {
	_, _ = l.Store.Break(ctx, req)
	return service.PastOwnership{}, lost(req.Mutex)
}

// Declare implements service.Store.
func (l lossy) Declare(ctx context.Context, req service.DeclareRequest) (service.Mutex, bool, error) {
	_, _, _ = l.Store.Declare(ctx, req)
	return service.Mutex{}, false, lost(req.Mutex)
}

// Remove implements service.Store.
func (l lossy) Remove(ctx context.Context, req service.RemoveRequest) error {
	_ = l.Store.Remove(ctx, req)
	return lost(req.Mutex)
}
