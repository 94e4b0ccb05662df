package etcdstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// Check implements service.Store.
func (s *Store) Check(_ context.Context, name service.Name) (service.Fence, error) {
	if _, err := s.refresh(name, ""); err != nil {
		return 0, err
	}
	v := s.view.look(name, "", false)
	if _, err := s.cfg.Policy.Resolve(name, v.settings()); err != nil {
		return 0, err
	}
	if v.owner == nil {
		return 0, nil
	}
	return v.owner.fence, nil
}

// Mutex implements service.Store.
func (s *Store) Mutex(ctx context.Context, req service.ReadRequest) (service.Mutex, error) {
	changed, stop := s.view.listen(req.Mutex)
	defer func() { stop() }()
	timer := time.NewTimer(req.Wait)
	defer timer.Stop()
	for {
		m, newest, err := s.readMutex(req.Mutex)
		if err != nil {
			return m, err
		}
		if req.After == nil || m.Revision > *req.After || *req.After > newest || req.Wait <= 0 {
			return m, nil
		}
		select {
		case <-changed:
			stop()
			changed, stop = s.view.listen(req.Mutex)
		case <-timer.C:
			req.Wait = 0
		case <-ctx.Done():
			return m, ended(ctx)
		}
	}
}

// readMutex reads a mutex, linearizably, and the newest revision of etcd.
func (s *Store) readMutex(name service.Name) (service.Mutex, service.Revision, error) {
	resp, err := s.read(s.reading(name, "")...)
	if err != nil {
		return service.Mutex{}, 0, unread(name, err)
	}
	if _, err := s.learn(name, "", resp); err != nil {
		return service.Mutex{}, 0, unread(name, err)
	}
	s.view.mu.Lock()
	m := s.mutexOf(s.view.at(name))
	s.view.sweep(s.view.at(name))
	s.view.mu.Unlock()
	if m.Declaration == 0 {
		settings, err := s.cfg.Policy.Resolve(name, nil)
		if err != nil {
			return m, 0, err
		}
		m.Settings = settings
	}
	return m, service.Revision(resp.Header.Revision), nil
}

// mutexOf returns m as the domain has it. view.mu is held.
func (s *Store) mutexOf(m *mutex) service.Mutex {
	out := service.Mutex{
		Name: m.name, Revision: service.Revision(m.maxRev), State: service.StateIdle, Waiters: s.view.countPresent(m),
		Settings: service.Settings{TTL: s.cfg.Policy.DefaultTTL, Transition: s.cfg.Policy.DefaultTransition},
	}
	if m.declared != nil {
		out.Declaration, out.Settings = service.Revision(m.declaredRev), m.declared.settings()
	}
	if m.owner != nil {
		own := s.ownership(m.owner)
		out.Owner = &own
		out.State = service.StateTTL
		if own.TTLRemaining == 0 {
			out.State = service.StateTransition
		}
	}
	return out
}

// listen returns a channel that is closed at the next change of a mutex. stop
// must be called.
func (v *view) listen(name service.Name) (changed <-chan struct{}, stop func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	m := v.at(name)
	if m.changed == nil {
		m.changed = make(chan struct{})
	}
	m.readers++
	return m.changed, func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		if m.readers--; m.readers == 0 {
			m.changed = nil
		}
		v.sweep(m)
	}
}

// Waiters implements service.Store.
func (s *Store) Waiters(_ context.Context, name service.Name) ([]service.Waiter, error) {
	if _, _, err := s.readMutex(name); err != nil {
		return nil, err
	}
	s.view.mu.Lock()
	defer s.view.mu.Unlock()
	line := []service.Waiter{}
	m := s.view.mutexes[name]
	if m == nil {
		return line, nil
	}
	place := 0
	for _, e := range m.line {
		w := service.Waiter{
			Contender: e.rec.Contender, Present: s.view.present(e), JoinedAt: e.rec.JoinedAt, Metadata: e.rec.Metadata,
		}
		if w.Present {
			place++
			w.Place = place
		}
		line = append(line, w)
	}
	return line, nil
}

// History implements service.Store. A declaration begins a history of its own.
func (s *Store) History(_ context.Context, name service.Name) ([]service.PastOwnership, error) {
	m, _, err := s.readMutex(name)
	if err != nil {
		return nil, err
	}
	all := s.view.look(name, "", false).history.Past
	if m.Declaration == 0 {
		if all, err = s.settledOf(name); err != nil {
			return nil, err
		}
	}
	past := []service.PastOwnership{}
	for _, rec := range all[:min(len(all), historyLength)] {
		past = append(past, rec.past())
	}
	return past, nil
}

// settledOf reads how ownerships of the last two minutes ended, the newest
// first.
func (s *Store) settledOf(name service.Name) ([]settledRecord, error) {
	resp, err := s.read(clientv3.OpGet(s.keys.settledOf(name), clientv3.WithPrefix()))
	if err != nil {
		return nil, unread(name, err)
	}
	var all []settledRecord
	for _, kv := range resp.Responses[0].GetResponseRange().Kvs {
		rec, err := decode[settledRecord](kv.Value)
		if err != nil {
			return nil, unread(name, keyError(kv, err))
		}
		if rec.spent() {
			all = append(all, rec)
		}
	}
	slices.SortFunc(all, func(a, b settledRecord) int { return cmp.Compare(b.Fence, a.Fence) })
	return all, nil
}

// List implements service.Store.
func (s *Store) List(_ context.Context, req service.ListRequest) (service.Page, error) {
	s.view.mu.Lock()
	defer s.view.mu.Unlock()
	if !s.view.isCurrent() {
		return service.Page{}, unread("", errSilent)
	}
	var names []service.Name
	for name, m := range s.view.mutexes {
		if name > req.After && s.view.listed(m) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	page := service.Page{Mutexes: []service.Mutex{}}
	for _, name := range names {
		m := s.mutexOf(s.view.mutexes[name])
		if !req.Selects(m) {
			continue
		}
		if req.Limit > 0 && len(page.Mutexes) == req.Limit {
			page.Next = page.Mutexes[req.Limit-1].Name
			break
		}
		page.Mutexes = append(page.Mutexes, m)
	}
	return page, nil
}

// listed reports whether m is more than a name that somebody asked for. mu is held.
func (v *view) listed(m *mutex) bool {
	return m.declared != nil || m.owner != nil || v.countPresent(m) > 0
}

// Ready implements service.Store.
func (s *Store) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	if _, err := s.cli.Get(ctx, s.keys.replica(s.id)); err != nil {
		return unread("", err)
	}
	if !s.view.current() {
		return unread("", errSilent)
	}
	return nil
}
