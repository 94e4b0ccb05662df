package servicetest

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// Mutex implements service.Store.
func (m *Memory) Mutex(ctx context.Context, req service.ReadRequest) (service.Mutex, error) {
	patience := time.NewTimer(req.Wait)
	defer patience.Stop()
	over := req.After == nil || req.Wait <= 0
	for {
		view, news, err := m.read(ctx, req.Mutex)
		if err != nil || over || view.newerThan(*req.After) {
			return view.Mutex, err
		}
		select {
		case <-news:
		case <-patience.C:
			over = true
		case <-ctx.Done():
		}
	}
}

// reading is a mutex, and the store's newest revision when it was read.
type reading struct {
	service.Mutex
	store service.Revision
}

// newerThan reports whether a blocking read is to be answered; one for a
// revision from the future is.
func (r reading) newerThan(after service.Revision) bool {
	return r.Revision > after || after > r.store
}

// read returns the mutex and a channel that is closed by the next change.
func (m *Memory) read(ctx context.Context, name service.Name) (reading, <-chan struct{}, error) {
	unlock, err := m.enter(ctx, name)
	if err != nil {
		return reading{}, nil, err
	}
	defer unlock()
	mx, err := m.known(name)
	if err != nil {
		return reading{}, nil, err
	}
	return reading{m.view(mx), m.revision}, m.changed, nil
}

// view is a mutex as it is read.
func (m *Memory) view(mx *mutex) service.Mutex {
	v := service.Mutex{
		Name:     mx.name,
		Revision: mx.revision,
		Settings: cloneSettings(m.settings(mx)),
		State:    service.StateIdle,
		Waiters:  mx.present(),
	}
	if mx.isDeclared() {
		v.Declaration = mx.declared.revision
	}
	if mx.owner != nil {
		o := mx.owner.view()
		v.Owner, v.State = &o, mx.owner.state()
	}
	return v
}

// Waiters implements service.Store.
func (m *Memory) Waiters(ctx context.Context, name service.Name) ([]service.Waiter, error) {
	unlock, err := m.enter(ctx, name)
	if err != nil {
		return nil, err
	}
	defer unlock()
	mx, err := m.known(name)
	if err != nil {
		return nil, err
	}
	line := make([]service.Waiter, 0, len(mx.line))
	for _, e := range mx.line {
		w := service.Waiter{Contender: e.party.Contender, Present: e.poll != nil, JoinedAt: e.joinedAt, Metadata: e.metadata}
		if w.Present {
			w.Place = mx.ahead(e.party.Pair) + 1
		}
		line = append(line, w)
	}
	return line, nil
}

// History implements service.Store.
func (m *Memory) History(ctx context.Context, name service.Name) ([]service.PastOwnership, error) {
	unlock, err := m.enter(ctx, name)
	if err != nil {
		return nil, err
	}
	defer unlock()
	mx, err := m.known(name)
	if err != nil {
		return nil, err
	}
	if mx.isDeclared() {
		return slices.Clone(mx.past), nil
	}
	return mx.recent(), nil
}

// recent is the history of an ad hoc mutex: what is still settled.
func (mx *mutex) recent() []service.PastOwnership {
	var past []service.PastOwnership
	for pair := range mx.settled {
		if s, ok := mx.outcomeOf(pair); ok && s.past.Ended != service.EndedLeft {
			past = append(past, s.past)
		}
	}
	slices.SortFunc(past, func(a, b service.PastOwnership) int { return cmp.Compare(b.Fence, a.Fence) })
	return past[:min(len(past), historyKept)]
}

// List implements service.Store.
func (m *Memory) List(ctx context.Context, req service.ListRequest) (service.Page, error) {
	unlock, err := m.enter(ctx, "")
	if err != nil {
		return service.Page{}, err
	}
	defer unlock()
	var page service.Page
	for _, mx := range m.byName() {
		v := m.view(mx)
		if mx.name <= req.After || !mx.inUse() || !selects(req, v) {
			continue
		}
		if req.Limit > 0 && len(page.Mutexes) == req.Limit {
			page.Next = page.Mutexes[req.Limit-1].Name
			break
		}
		page.Mutexes = append(page.Mutexes, v)
	}
	return page, nil
}

func (m *Memory) byName() []*mutex {
	all := make([]*mutex, 0, len(m.mutexes))
	for _, mx := range m.mutexes {
		all = append(all, mx)
	}
	slices.SortFunc(all, func(a, b *mutex) int { return cmp.Compare(a.name, b.name) })
	return all
}

// inUse reports whether a mutex belongs in the list.
func (mx *mutex) inUse() bool {
	return mx.isDeclared() || mx.owner != nil || mx.present() > 0
}

func selects(req service.ListRequest, v service.Mutex) bool {
	for k, want := range req.Labels {
		if got, ok := v.Settings.Labels[k]; !ok || got != want {
			return false
		}
	}
	return strings.HasPrefix(string(v.Name), req.Prefix) &&
		(req.State == "" || v.State == req.State) &&
		(req.Owner == "" || v.Owner != nil && v.Owner.Contender == req.Owner)
}
