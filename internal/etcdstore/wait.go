package etcdstore

import (
	"context"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// join writes our place in line, present, or takes it over from an older poll
// of ours. nil without an error: decide again.
//
// Compared: somebody owns the mutex. When the last owner went in that moment
// without having seen us, this fails and we take the mutex; when our write
// comes first, the owner's end fails and hands over to us. Joins do not
// compare the line, so that those who come together do not hinder each other.
func (a *acquiring) join(v *sight) (*entry, error) {
	if a.settled.spent() {
		return nil, a.spent()
	}
	terms, err := a.terms(v)
	if err != nil {
		return nil, a.proven(err)
	}
	s, name, pair := a.s, a.req.Mutex, a.req.Party.Pair
	line, err := s.reserve(&s.linePool)
	if err != nil {
		return nil, unread(name, err)
	}
	pool := s.ownerPool(terms.Window())
	own, err := s.reserve(pool)
	if err != nil {
		s.linePool.done(line)
		return nil, unread(name, err)
	}
	a.hold(line, pool, own)

	rec := entryRecord{
		header: current, Contender: a.req.Party.Contender, Joined: a.joined, JoinedAt: now(), Present: true,
		Poll: a.poll.id, Replica: s.id, Lease: own.id, Metadata: a.req.Metadata, asked: newAsked(a.req.Asked),
	}
	t := &txn{mutex: name}
	if v.owner != nil {
		t.exists(s.keys.owner(name))
	} else {
		// Idle, with others before us: they are being promoted.
		t.unchanged(s.keys.entry(name, v.head.pair), v.head.rev)
	}
	t.unchanged(s.keys.settled(name, pair), a.settled.rev)
	t.unchanged(s.keys.declared(name), v.declaredRev)
	if v.mine != nil {
		rec.Joined, rec.JoinedAt = v.mine.joined, v.mine.rec.JoinedAt
		t.unchanged(s.keys.entry(name, pair), v.mine.rev)
	} else {
		t.absent(s.keys.entry(name, pair))
	}
	if full, err := a.limit(t, v); full {
		return nil, err
	}
	t.put(s.keys.entry(name, pair), rec, line.id)
	t.ops = append(t.ops, clientv3.OpGet(s.keys.owner(name))) // who may be ourselves by now
	return a.joinWith(t, rec, line.id, own.id)
}

func (a *acquiring) joinWith(t *txn, rec entryRecord, line, own int64) (*entry, error) {
	s, name, pair := a.s, a.req.Mutex, a.req.Party.Pair
	resp, err := s.commit(t)
	a.again = a.again || t.again
	if leaseGone(err) {
		s.forgetLease(line)
		s.forgetLease(own)
		return nil, nil
	}
	if err != nil {
		return nil, unwritten(name, err)
	}
	if !resp.Succeeded {
		return nil, a.reread(t)
	}
	rev := resp.Header.Revision
	if a.joined = rec.Joined; a.joined == 0 {
		a.joined = rev
	}
	e := &entry{pair: pair, rec: rec, rev: rev, joined: a.joined}
	s.view.mu.Lock()
	s.view.applyEntry(s.view.at(name), pair, &rec, rev)
	s.view.mu.Unlock()
	return a.unlessOwned(e, resp.Responses[1].GetResponseRange().Kvs)
}

// unlessOwned returns the place e that we have joined with, unless a newer poll
// of our party came to own in that moment: then it is none. A join compares
// that somebody owns, and not who it is: every guard would make it fail.
func (a *acquiring) unlessOwned(e *entry, kvs []*mvccpb.KeyValue) (*entry, error) {
	if len(kvs) == 0 {
		return e, nil
	}
	rec, err := decode[ownerRecord](kvs[0].Value)
	if err != nil {
		return nil, unread(a.req.Mutex, keyError(kvs[0], err))
	}
	if rec.Pair != e.pair {
		return e, nil
	}
	return nil, unwritten(a.req.Mutex, a.s.misplaced(a.req.Mutex, e))
}

// limit refuses to make the line longer than is declared. Only then does a
// join compare the line, for its length is what it decides on. Who has a place
// keeps it.
func (a *acquiring) limit(t *txn, v *sight) (full bool, err error) {
	if v.declared == nil || v.declared.MaxWaiters == 0 || v.mine != nil {
		return false, nil
	}
	crowd := a.s.view.look(a.req.Mutex, a.req.Party.Pair, true)
	if others := crowd.waiters; others >= v.declared.MaxWaiters {
		return true, a.proven(&service.Error{
			Kind: service.KindTooManyWaiters, Mutex: a.req.Mutex, Waiters: others, RetryAfter: time.Second,
		})
	}
	t.nothingNewer(a.s.keys.line(a.req.Mutex), v.rev)
	a.s.dead(t, crowd.absent)
	return false, nil
}

// wait waits for the turn of the place e. It ends with a grant, with the end of
// patience, with ctx, or with a newer poll of the same party.
func (a *acquiring) wait(ctx context.Context, e *entry) (*grant, error) {
	timer := time.NewTimer(time.Until(a.until))
	defer timer.Stop()
	a.fresh = false
	for {
		v := a.s.view.look(a.req.Mutex, a.req.Party.Pair, false)
		g, over, err := a.turn(&v, e)
		if over || err != nil {
			return g, err
		}
		select {
		case <-a.poll.woke:
		case <-timer.C:
			return a.giveUp(ctx, e)
		case <-ctx.Done():
			return a.giveUp(ctx, e)
		}
	}
}

// turn looks at what became of our place; over means that the wait is.
func (a *acquiring) turn(v *sight, e *entry) (g *grant, over bool, err error) {
	switch {
	case v.owner != nil && v.owner.rec.Pair == a.req.Party.Pair:
		return a.answer(v)
	case v.mine == nil:
		return a.vanished(e)
	case v.mine.rec.Poll != a.poll.id && v.mine.rev > e.rev:
		return nil, true, a.superseded()
	case !v.mine.rec.Present && v.mine.rev > e.rev:
		return nil, true, nil // others took us for dead, and put our place back: into line again
	}
	if _, err := a.s.cfg.Policy.Resolve(a.req.Mutex, v.settings()); err != nil { // removed while we wait
		return nil, true, a.quit(err)
	}
	return nil, false, nil
}

// vanished finds out why our place is gone: released, or granted to a newer
// poll and over since; or its lease died, and then it is put back in its order.
func (a *acquiring) vanished(e *entry) (*grant, bool, error) {
	if err := a.refresh(); err != nil {
		return nil, true, err
	}
	v := a.s.view.look(a.req.Mutex, a.req.Party.Pair, false)
	switch {
	case v.mine != nil || v.owner != nil && v.owner.rec.Pair == a.req.Party.Pair || !a.settled.isNothing():
		a.poll.nudge()
		return nil, false, nil
	case a.settled.spent():
		return nil, true, a.spent()
	case a.settled.rec != nil && a.settled.rev > e.rev:
		return nil, true, &service.Error{Kind: service.KindLeftLine, Mutex: a.req.Mutex}
	}
	return nil, true, nil
}

// answer returns the grant that a hand-over made us. A view that is behind may
// show one that has ended since.
func (a *acquiring) answer(v *sight) (*grant, bool, error) {
	if v.owner.rec.Poll != a.poll.id {
		return nil, true, a.superseded()
	}
	if !v.current && !a.fresh {
		a.poll.nudge()
		return nil, false, a.refresh()
	}
	g := a.granted(v.owner.fence, v.owner.rec)
	g.own = a.s.ownership(v.owner)
	return g, true, nil
}

// giveUp leaves the line but keeps the place, and only then says how the wait
// ended. A grant that comes in that moment is returned.
func (a *acquiring) giveUp(ctx context.Context, e *entry) (*grant, error) {
	a.fresh = false
	for {
		v := a.s.view.look(a.req.Mutex, a.req.Party.Pair, false)
		switch {
		case v.owner != nil && v.owner.rec.Pair == a.req.Party.Pair:
			if g, over, err := a.answer(&v); over || err != nil {
				return g, err
			}
			continue
		case v.mine == nil:
			// Its turn may have come and gone: the view alone does not tell.
			_, over, err := a.vanished(e)
			if err != nil {
				return nil, err
			}
			if over {
				return nil, a.over(ctx, 0)
			}
			continue
		case v.mine.rec.Poll != a.poll.id:
			return nil, a.superseded()
		}
		place := a.s.view.placeOf(a.req.Mutex, v.mine)
		done, err := a.s.away(a.req.Mutex, v.mine)
		if err != nil {
			return nil, unwritten(a.req.Mutex, err)
		}
		if done {
			return nil, a.over(ctx, place)
		}
	}
}

// over says how a wait ended that brought nothing.
func (a *acquiring) over(ctx context.Context, place int) error {
	if ctx.Err() != nil {
		return ended(ctx)
	}
	return a.locked(place)
}

// quit leaves the line because of err.
func (a *acquiring) quit(err error) error {
	for {
		v := a.s.view.look(a.req.Mutex, a.req.Party.Pair, false)
		if v.mine == nil || v.mine.rec.Poll != a.poll.id || !v.mine.rec.Present {
			return err
		}
		if _, awayErr := a.s.away(a.req.Mutex, v.mine); awayErr != nil {
			return unwritten(a.req.Mutex, awayErr)
		}
	}
}

func (a *acquiring) superseded() error {
	return &service.Error{Kind: service.KindSuperseded, Mutex: a.req.Mutex}
}
