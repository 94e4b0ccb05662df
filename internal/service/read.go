package service

import (
	"context"
	"errors"
	"iter"
	"strings"
)

// Mutex reads a mutex; with After it waits, up to the longest poll, until
// something is newer. Errors: as of Store.Mutex, and KindDraining.
func (s *Service) Mutex(ctx context.Context, req ReadRequest) (Mutex, error) {
	req.Wait = min(req.Wait, s.cfg.MaxWait)
	if req.After != nil && req.Wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = s.waiting(ctx)
		defer cancel()
	}
	m, err := s.store.Mutex(ctx, req)
	return m, s.ended(req.Mutex, err)
}

// Waiters returns the line. Errors: as of Store.Waiters.
func (s *Service) Waiters(ctx context.Context, name Name) ([]Waiter, error) {
	return s.store.Waiters(ctx, name)
}

// History returns the last ownerships. Errors: as of Store.History.
func (s *Service) History(ctx context.Context, name Name) ([]PastOwnership, error) {
	return s.store.History(ctx, name)
}

// Events yields what happens to a mutex, until ctx ends or the replica drains,
// which is not an error: the reader resumes elsewhere.
func (s *Service) Events(ctx context.Context, name Name, after *EventID) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		ctx, cancel := s.waiting(ctx)
		defer cancel()
		for ev, err := range s.store.Events(ctx, name, after) {
			if errors.Is(err, errDraining) {
				return
			}
			if !yield(ev, err) {
				return
			}
		}
	}
}

// List returns a page of mutexes. Errors: as of Store.List.
func (s *Service) List(ctx context.Context, req ListRequest) (Page, error) {
	return s.store.List(ctx, req)
}

// Selects reports whether m is among those that the request asks for,
// whatever page it is on.
func (r ListRequest) Selects(m Mutex) bool {
	for k, want := range r.Labels {
		if got, ok := m.Settings.Labels[k]; !ok || got != want {
			return false
		}
	}
	return strings.HasPrefix(string(m.Name), r.Prefix) &&
		(r.State == "" || m.State == r.State) &&
		(r.Owner == "" || m.Owner != nil && m.Owner.Contender == r.Owner)
}
