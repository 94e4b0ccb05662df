package etcdstore

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// acquiring is one acquire request on its way.
type acquiring struct {
	s     *Store
	req   service.AcquireRequest
	poll  *poll
	until time.Time // the one deadline of the wait

	fresh   bool              // what the next decision starts from was read in this round
	settled standing          // as of the last read
	joined  int64             // of our place, once we had one; an entry that vanished is put back with it
	letGo   func()            // ends the reservations of our place
	done    func(failed bool) // ends that its ownership is not ended while it renews, and its turn
	again   bool              // a copy of what it tried may yet be committed
	renews  bool              // what it tried last renews what its party was told of before: that is not undone
	inherit bool              // the grant that we renew was never told of, so ours is undone if we are not told either
}

// Acquire implements service.Store.
func (s *Store) Acquire(ctx context.Context, req service.AcquireRequest) (service.Grant, error) {
	a := &acquiring{s: s, req: req, until: time.Now().Add(req.Wait)}
	if err := s.awake(); err != nil {
		return nil, unread(req.Mutex, err)
	}
	a.poll = s.view.open(req.Mutex, req.Party.Pair)
	g, err := a.run(ctx)
	a.hold(nil, nil, nil)
	if a.done != nil {
		a.done(failed(err))
	}
	switch {
	case err == nil && ctx.Err() != nil:
		g.Lost()
		s.passOnNow(g)
		return nil, ended(ctx)
	case err == nil:
		return g, nil
	case a.renews || leftNothing(err) && !a.again:
		s.view.told(a.poll)
	default:
		s.view.untold(a.poll)
	}
	return nil, err
}

// leftNothing reports whether a request that ended so has certainly nothing in
// etcd that carries its poll as present.
func leftNothing(err error) bool {
	e := (*service.Error)(nil)
	return errors.As(err, &e) && e.Kind != service.KindOutcomeUnknown && e.Kind != service.KindUnavailable
}

// run decides, and decides again whenever a transaction found something else
// than the view had.
func (a *acquiring) run(ctx context.Context) (*grant, error) {
	for tries := 0; ; tries++ {
		a.s.breathe(tries)
		v := a.s.view.look(a.req.Mutex, a.req.Party.Pair, false)
		if !v.current && !a.fresh {
			if err := a.refresh(); err != nil {
				return nil, err
			}
			continue
		}
		if ctx.Err() != nil {
			return nil, ended(ctx)
		}
		g, err := a.step(ctx, &v)
		if g != nil || err != nil {
			return g, err
		}
	}
}

// step makes one decision. Neither a grant nor an error means: once more.
func (a *acquiring) step(ctx context.Context, v *sight) (*grant, error) {
	pair := a.req.Party.Pair
	a.renews = false
	switch {
	case v.owner != nil && v.owner.rec.Pair == pair && v.owner.rec.Poll == a.poll.id:
		g, _, err := a.answer(v) // what was sent twice has happened
		return g, err
	case v.owner != nil && v.owner.rec.Pair == pair:
		if a.done == nil {
			return nil, a.begin(ctx)
		}
		return a.renew(v)
	case v.owner == nil && (v.head == nil || v.mine != nil && v.mine.joined <= v.head.joined):
		return a.take(v)
	case a.req.Wait <= 0 && v.mine == nil:
		return nil, a.refuse(v)
	}
	e, err := a.join(v)
	if err != nil || e == nil {
		return nil, err
	}
	return a.wait(ctx, e)
}

// begin is what a renewal has in common with a guard: it suspends the end of
// the ownership, and waits for its turn. What it waited for may have changed
// everything.
func (a *acquiring) begin(ctx context.Context) error {
	_, done := a.s.view.guarding(a.req.Mutex, a.req.Party.Pair)
	over, err := a.s.view.inTurn(ctx, a.req.Mutex, a.req.Party.Pair)
	if err != nil {
		done(false)
		return err
	}
	a.done = func(failed bool) { over(); done(failed) }
	return nil
}

func (a *acquiring) refresh() error {
	return a.rests(a.s.refresh(a.req.Mutex, a.req.Party.Pair))
}

func (a *acquiring) reread(t *txn) error {
	return a.rests(a.s.reread(t, a.req.Party.Pair))
}

// rests has the next decision rest on what was read.
func (a *acquiring) rests(set standing, err error) error {
	if err == nil {
		a.settled, a.fresh = set, true
	}
	return err
}

// terms returns what a grant gives; a refusal rests on a read.
func (a *acquiring) terms(v *sight) (service.Terms, error) {
	declared := v.settings()
	settings, err := a.s.cfg.Policy.Resolve(a.req.Mutex, declared)
	if err != nil {
		return service.Terms{}, err
	}
	return settings.Grant(declared != nil, a.req.Asked)
}

// proven returns err once it rests on a read of this round; until then it
// reads, and the decision is made again.
func (a *acquiring) proven(err error) error {
	if a.fresh {
		return err
	}
	return a.refresh()
}

// take makes an idle mutex ours. Compared: nobody owns it, nobody joined or
// came back since the view that says that we are first, the token is not
// spent, the settings are those that the terms come from.
func (a *acquiring) take(v *sight) (*grant, error) {
	if a.settled.spent() {
		return nil, a.spent()
	}
	terms, err := a.terms(v)
	if err != nil {
		return nil, a.proven(err)
	}
	s, name, pair := a.s, a.req.Mutex, a.req.Party.Pair
	pool := s.ownerPool(terms.Window())
	lease, err := s.reserve(pool)
	if err != nil {
		return nil, unread(name, err)
	}
	defer pool.done(lease)

	rec := ownerRecord{
		header: current, Contender: a.req.Party.Contender, Pair: pair, AcquiredAt: now(),
		Metadata: a.req.Metadata, Replica: s.id, Poll: a.poll.id, asked: newAsked(a.req.Asked),
	}
	rec.setTerms(terms)
	t := &txn{mutex: name}
	t.absent(s.keys.owner(name))
	t.nothingNewer(s.keys.line(name), v.rev)
	s.dead(t, v.dead)
	t.unchanged(s.keys.settled(name, pair), a.settled.rev)
	t.unchanged(s.keys.declared(name), v.declaredRev)
	if v.mine != nil {
		rec.Joined, rec.JoinedAt = v.mine.joined, &v.mine.rec.JoinedAt
		t.delete(s.keys.entry(name, pair))
	}
	t.put(s.keys.owner(name), rec, lease.id)
	return a.own(t, pool, &rec, lease.id, v.mine != nil)
}

// own commits a transaction that makes or keeps us the owner.
func (a *acquiring) own(t *txn, pool *pool, rec *ownerRecord, lease int64, hadPlace bool) (*grant, error) {
	s, name := a.s, a.req.Mutex
	resp, err := s.commit(t)
	a.again = a.again || t.again
	if leaseGone(err) {
		pool.forget(lease)
		return nil, nil
	}
	if err != nil {
		return nil, unwritten(name, err)
	}
	if !resp.Succeeded {
		return nil, a.reread(t)
	}
	rev := resp.Header.Revision
	s.view.mu.Lock()
	defer s.view.mu.Unlock()
	m := s.view.at(name)
	if hadPlace {
		s.view.buryEntry(m, rec.Pair, rev)
	}
	s.view.applyOwner(m, rec, rev, lease)
	fence := rec.Fence
	if fence == 0 {
		fence = service.Fence(rev)
	}
	return a.granted(fence, *rec), nil
}

// renew is an acquire by the owner: the same ownership, both windows anew, and
// answered by this request.
func (a *acquiring) renew(v *sight) (*grant, error) {
	s, name, o := a.s, a.req.Mutex, v.owner
	terms, err := a.terms(v)
	if err != nil {
		return nil, a.proven(err)
	}
	rec, held := s.renewed(o, terms)
	if terms.MaxHold > 0 && held >= terms.MaxHold {
		return nil, a.proven(&service.Error{Kind: service.KindMaxHoldReached, Mutex: name, Fence: o.fence})
	}
	a.inherit = s.view.neverTold(o)
	a.renews = !a.inherit
	rec.Poll, rec.asked = a.poll.id, newAsked(a.req.Asked)
	if a.req.Metadata != nil {
		rec.Metadata = a.req.Metadata
	}
	if a.inherit {
		rec.Joined, rec.JoinedAt = o.rec.Joined, o.rec.JoinedAt
	}
	pool, lease, done, err := s.leaseFor(o, terms)
	if err != nil {
		return nil, unread(name, err)
	}
	defer done()
	t := &txn{mutex: name}
	t.unchanged(s.keys.owner(name), o.rev)
	t.unchanged(s.keys.declared(name), v.declaredRev)
	t.put(s.keys.owner(name), rec, lease)
	return a.own(t, pool, &rec, lease, false)
}

// refuse answers an acquire that does not wait, on the word of a read.
func (a *acquiring) refuse(v *sight) error {
	if !a.fresh {
		return a.refresh()
	}
	if a.settled.spent() {
		return a.spent()
	}
	if _, err := a.terms(v); err != nil {
		return err
	}
	return a.locked(0)
}

func (a *acquiring) spent() error {
	return &service.Error{Kind: service.KindTokenSpent, Mutex: a.req.Mutex, Ended: a.settled.ending(), Fence: a.settled.fence()}
}

// locked describes who is before us.
func (a *acquiring) locked(place int) error {
	v := a.s.view.look(a.req.Mutex, a.req.Party.Pair, true)
	e := &service.Error{Kind: service.KindLocked, Mutex: a.req.Mutex, Waiters: v.waiters, Place: place}
	if v.owner != nil {
		o := a.s.ownership(v.owner)
		e.Holder = &o
	}
	return e
}
