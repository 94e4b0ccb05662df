package etcdstore

import (
	"time"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// grant implements service.Grant.
type grant struct {
	s      *Store
	poll   *poll
	own    service.Ownership
	undone bool // Lost undoes it
}

func (g *grant) Ownership() service.Ownership { return g.own }

func (g *grant) Told() { g.s.view.told(g.poll) }

// Lost undoes what still carries our poll. A renewal of what was told earlier
// is left alone: its owner may well be alive and rely on it.
func (g *grant) Lost() {
	if g.undone {
		g.s.view.untold(g.poll)
	} else {
		g.s.view.told(g.poll)
	}
}

// granted makes the answer to this request.
func (a *acquiring) granted(fence service.Fence, rec ownerRecord) *grant {
	age := time.Duration(rec.HeldMs) * time.Millisecond
	own := ownershipOf(fence, rec, age)
	return &grant{s: a.s, poll: a.poll, own: own, undone: rec.Fence == 0 || a.inherit}
}

// ownershipOf returns an ownership whose windows start now.
func ownershipOf(fence service.Fence, rec ownerRecord, held time.Duration) service.Ownership {
	t := rec.terms()
	ttl, window := t.Cut(held)
	return service.Ownership{
		Contender: rec.Contender, Fence: fence, AcquiredAt: rec.AcquiredAt, Held: held,
		TTL: t.TTL, Transition: t.Transition, TTLRemaining: ttl, TransitionRemaining: window, Metadata: rec.Metadata,
	}
}

// ownership returns o as of now.
func (s *Store) ownership(o *owner) service.Ownership {
	t := s.clock.Now()
	own := ownershipOf(o.fence, o.rec, o.held(t))
	own.TTLRemaining, own.TransitionRemaining = max(0, o.ttlEnd-t), max(0, o.end-t)
	return own
}

// neverTold reports whether the request that o was granted to ended untold. One
// that is still on its way may tell its client yet, so it does not count.
func (v *view) neverTold(o *owner) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return o.rec.Poll != "" && v.isUntold(o.rec.Poll)
}

// renewed returns the record of o with both windows from now on, and its age.
func (s *Store) renewed(o *owner, terms service.Terms) (rec ownerRecord, held time.Duration) {
	held = o.held(s.clock.Now())
	rec = o.rec
	rec.Fence, rec.HeldMs, rec.Replica = o.fence, held.Milliseconds(), s.id
	rec.Poll, rec.Joined, rec.JoinedAt = "", 0, nil
	rec.setTerms(terms)
	return rec, held
}

// leaseFor returns the lease for the next revision of o's key: the one that it
// hangs on, where that is ours and lives long enough, or one of the pool. done
// ends the reservation.
func (s *Store) leaseFor(o *owner, terms service.Terms) (p *pool, id int64, done func(), err error) {
	p = s.ownerPool(terms.Window())
	if p.has(o.lease) {
		return p, o.lease, func() {}, nil
	}
	l, err := s.reserve(p)
	if err != nil {
		return nil, 0, nil, err
	}
	return p, l.id, func() { p.done(l) }, nil
}

// has reports whether the lease is one of the pool's and not gone.
func (p *pool) has(id int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.kept {
		if l.id == id && !l.gone {
			return true
		}
	}
	return false
}
