package servicetest

import (
	"context"
	"maps"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// Declare implements service.Store.
func (m *Memory) Declare(ctx context.Context, req service.DeclareRequest) (service.Mutex, bool, error) {
	unlock, err := m.enter(ctx, req.Mutex)
	if err != nil {
		return service.Mutex{}, false, err
	}
	defer unlock()
	mx := m.mutex(req.Mutex)
	if !mx.fulfils(req.If) {
		return service.Mutex{}, false, mx.refusal(service.KindPreconditionFailed)
	}
	created := !mx.isDeclared()
	c := m.begin(mx)
	mx.declared = &declaration{settings: cloneSettings(req.Settings), revision: c.id.Revision}
	return m.view(mx), created, nil
}

// Remove implements service.Store.
func (m *Memory) Remove(ctx context.Context, req service.RemoveRequest) error {
	unlock, err := m.enter(ctx, req.Mutex)
	if err != nil {
		return err
	}
	defer unlock()
	mx := m.mutex(req.Mutex)
	switch {
	case !mx.isDeclared():
		return mx.refusal(service.KindMutexNotDeclared)
	case !mx.fulfils(req.If):
		return mx.refusal(service.KindPreconditionFailed)
	case mx.owner != nil && !req.Force:
		return mx.refusal(service.KindMutexHeld)
	}
	c := m.begin(mx)
	mx.declared, mx.past = nil, nil
	if mx.owner != nil {
		m.endOwnership(c, service.EndedBroken, "the mutex was removed", "")
	}
	return nil
}

// fulfils reports whether a precondition holds.
func (mx *mutex) fulfils(p service.Precondition) bool {
	if p.Absent && mx.isDeclared() {
		return false
	}
	return p.Match == 0 || mx.isDeclared() && mx.declared.revision == p.Match
}

func cloneSettings(s service.Settings) service.Settings {
	s.Labels = maps.Clone(s.Labels)
	return s
}
