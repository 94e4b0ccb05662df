package etcdstore

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// guarding counts a guard that arrived before W was over: while it is in
// flight, we do not end the ownership. inTime is false when there is nothing
// to suspend. done is called when the outcome is known, with whether etcd
// failed it.
func (v *view) guarding(name service.Name, pair service.Pair) (inTime bool, done func(failed bool)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	m, t := v.mutexes[name], v.clock.Now()
	if m == nil || m.owner == nil || m.owner.rec.Pair != pair || t >= m.owner.end && m.owner.hold.guards == 0 {
		return false, func(bool) {}
	}
	h := m.owner.hold
	if h.guards == 0 {
		h.since, h.rev, h.failed = t, m.owner.rev, false
	}
	h.guards++
	return true, func(failed bool) {
		v.mu.Lock()
		defer v.mu.Unlock()
		h.guards--
		h.failed = h.failed || failed
		if h.guards == 0 && h.failed {
			v.forgive(m, h)
		}
		v.tend(m)
	}
}

// forgive adds to the windows the time in which the owner's guards were with
// us, and came to nothing: it did what it could. Else the ownership would end
// before the guard that follows a 503 arrives.
func (v *view) forgive(m *mutex, h *hold) {
	if m.owner == nil || m.owner.hold != h || m.owner.rev != h.rev {
		return // one of them was committed after all, or it is over
	}
	o, lost := *m.owner, v.clock.Now()-h.since
	o.ttlEnd, o.end = o.ttlEnd+lost, o.end+lost
	m.owner = &o
	v.schedule(m, o.end)
}

// failed reports whether err is of etcd, and not the answer to a guard.
func failed(err error) bool {
	return errors.Is(err, service.Of(service.KindUnavailable)) || errors.Is(err, service.Of(service.KindOutcomeUnknown))
}

// Guard implements service.Store.
func (s *Store) Guard(ctx context.Context, req service.GuardRequest) (service.Ownership, error) {
	inTime, done := s.view.guarding(req.Mutex, req.Party.Pair)
	own, err := s.guardInTurn(ctx, req, inTime)
	done(failed(err))
	return own, err
}

func (s *Store) guardInTurn(ctx context.Context, req service.GuardRequest, inTime bool) (service.Ownership, error) {
	over, err := s.view.inTurn(ctx, req.Mutex, req.Party.Pair)
	if err != nil {
		return service.Ownership{}, err
	}
	defer over()
	return s.guardUntil(ctx, req, inTime)
}

// inTurn waits until none of the guards of a party is being committed by this
// replica, and lets no other begin until over is called.
//
// Interleaving that this closes: etcd takes two seconds, and the client gives
// up after three, and guards again. Beside the guard before, which is committed
// meanwhile, that one would fail, and take another two seconds when it is made
// again; and so would the next. None would ever be answered in time.
func (v *view) inTurn(ctx context.Context, name service.Name, pair service.Pair) (over func(), err error) {
	for {
		h, busy := v.takeTurn(name, pair)
		if busy == nil {
			return func() { v.endTurn(h) }, nil
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ended(ctx)
		}
	}
}

// takeTurn returns what ends when the guard before is over, or nil when there
// is none. Who does not own, as far as the view knows, hinders nobody.
func (v *view) takeTurn(name service.Name, pair service.Pair) (h *hold, busy <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	m := v.mutexes[name]
	if m == nil || m.owner == nil || m.owner.rec.Pair != pair {
		return nil, nil
	}
	h = m.owner.hold
	if h.turn != nil {
		return nil, h.turn
	}
	h.turn = make(chan struct{})
	return h, nil
}

func (v *view) endTurn(h *hold) {
	if h == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	close(h.turn)
	h.turn = nil
}

func (s *Store) guardUntil(ctx context.Context, req service.GuardRequest, inTime bool) (service.Ownership, error) {
	name, pair := req.Mutex, req.Party.Pair
	var set standing
	for tries := 0; ctx.Err() == nil; tries++ {
		s.breathe(tries)
		v := s.view.look(name, pair, false)
		g := s.planGuard(name, pair, &v, inTime)
		switch {
		case g.over:
			// It is ours to end, and was not yet; the answer is what it becomes.
			if err := s.expire(name, v.owner); err != nil {
				return service.Ownership{}, unwritten(name, err)
			}
			set = standing{}
		case g.owned && !g.reached:
			own, out, err := s.guard(g)
			if out.done || err != nil {
				return own, unwritten(name, err)
			}
			set = out.settled
		case g.owned && set.owns:
			return service.Ownership{}, &service.Error{Kind: service.KindMaxHoldReached, Mutex: name, Fence: v.owner.fence}
		case !g.owned && set.read && !set.owns:
			err := s.notOwner(name, set, &v)
			if set.rec != nil && set.rec.MaxHold {
				err.Kind = service.KindMaxHoldReached
			}
			return service.Ownership{}, err
		default:
			found, err := s.refresh(name, pair)
			if err != nil {
				return service.Ownership{}, err
			}
			set = found
		}
	}
	return service.Ownership{}, ended(ctx)
}

// guardPlan is a guard before it is committed.
type guardPlan struct {
	name    service.Name
	owned   bool // by the party, as far as the view knows
	over    bool // W has passed, we are the home, and the guard came after
	reached bool // the ownership is at its declared age
	o       *owner
	v       *sight
	rec     ownerRecord
}

func (s *Store) planGuard(name service.Name, pair service.Pair, v *sight, inTime bool) guardPlan {
	g := guardPlan{name: name, o: v.owner, v: v}
	if g.o == nil || g.o.rec.Pair != pair {
		return g
	}
	g.owned = true
	g.over = !inTime && g.o.rec.Replica == s.id && s.clock.Now() >= g.o.end
	terms := g.o.rec.terms()
	terms.MaxHold = 0
	if d := v.settings(); d != nil {
		terms = d.Renew(true, g.o.rec.domain())
	}
	var held time.Duration
	g.rec, held = s.renewed(g.o, terms)
	g.reached = terms.MaxHold > 0 && held >= terms.MaxHold
	return g
}

// compare adds to t what a guard rests on: the revision that the windows were
// counted from, and the settings that the new ones come from. Without the
// first, a heartbeat in flight revives what was released in the same moment.
func (g *guardPlan) compare(s *Store, t *txn) {
	t.unchanged(s.keys.owner(g.name), g.o.rev)
	t.unchanged(s.keys.declared(g.name), g.v.declaredRev)
}

// guard commits one guard.
func (s *Store) guard(g guardPlan) (service.Ownership, outcome, error) {
	pool, lease, done, err := s.leaseFor(g.o, g.rec.terms())
	if err != nil {
		return service.Ownership{}, outcome{}, unread(g.name, err)
	}
	defer done()
	t := &txn{mutex: g.name}
	g.compare(s, t)
	t.put(s.keys.owner(g.name), g.rec, lease)
	resp, err := s.commit(t)
	if leaseGone(err) {
		pool.forget(lease)
		return service.Ownership{}, outcome{}, nil
	}
	if err != nil {
		return service.Ownership{}, outcome{}, err
	}
	if !resp.Succeeded {
		set, err := s.reread(t, g.rec.Pair)
		return service.Ownership{}, outcome{settled: set}, unread(g.name, err)
	}
	return s.guarded(g, resp.Header.Revision, lease), outcome{done: true}, nil
}

// guarded takes a committed guard into the view.
func (s *Store) guarded(g guardPlan, rev, lease int64) service.Ownership {
	s.view.mu.Lock()
	defer s.view.mu.Unlock()
	s.view.applyOwner(s.view.at(g.name), &g.rec, rev, lease)
	return ownershipOf(g.o.fence, g.rec, time.Duration(g.rec.HeldMs)*time.Millisecond)
}
