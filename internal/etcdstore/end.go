package etcdstore

import (
	"github.com/holdfast-lock/holdfast/internal/service"
)

// ending says how an ownership ends.
type ending struct {
	how     service.Ending // "" = undone, for nobody was told of it: not settled
	opID    string
	reason  string
	settled int64 // with an opID: the revision of what is settled; else a late duplicate ends what is newer
	maxHold bool
	dead    string // this replica must be dead
	removal bool   // the declaration and the history go with it
}

// outcome is of a transaction that ends something.
type outcome struct {
	done    bool
	past    settledRecord // done: what was settled
	settled standing      // not done: what was read of the owner instead
}

// end ends the ownership o in one write: the mutex now is the first waiter's
// who is present, or nobody's. Not done means that something else happened
// first; the view has it, and the decision is to be made again.
//
// The comparisons, and what each closes:
//   - the owner's revision: a guard, or another end, came first. Without it an
//     expiry frees what was guarded in the same moment.
//   - nothing of the head was settled since its place was written: a place that
//     its party is about to take back, for another poll of it owned meanwhile,
//     would own again with a token that is spent.
//   - the head's revision: the head went away, or polls anew with another id.
//   - the revisions of those away before the head: one is back and comes first.
//   - the replicas of those before the head who say that they are present are
//     dead: the view may have a place before it has its replica's sign.
//   - the head's replica is alive: else a dead replica's waiter would own, and
//     nobody would be told.
//   - with no head, nothing in the line is newer than the view: a waiter who
//     joined in that moment saw an owner, and would wait for ever.
func (s *Store) end(name service.Name, o *owner, e ending) (outcome, error) {
	v := s.view.look(name, o.rec.Pair, false)
	if v.owner == nil || v.owner.rev != o.rev {
		set, err := s.refresh(name, o.rec.Pair)
		return outcome{settled: set}, err
	}
	if v.mine != nil {
		return outcome{}, s.misplaced(name, v.mine)
	}
	t := &txn{mutex: name}
	t.unchanged(s.keys.owner(name), o.rev)
	t.unchanged(s.keys.declared(name), v.declaredRev)
	if e.dead != "" {
		t.absent(s.keys.replica(e.dead))
	}
	next, err := s.succeed(t, name, &v, e.removal)
	if err != nil {
		return outcome{}, err
	}
	if next == nil {
		t.delete(s.keys.owner(name))
	}
	after, err := s.leaveBehind(t, name, o, &v, e)
	if err != nil {
		return outcome{}, err
	}
	send := s.commit
	if e.removal {
		send = s.once
	}
	resp, err := send(t)
	if leaseGone(err) {
		s.mislaid(next)
		return outcome{}, nil
	}
	if err != nil {
		return outcome{}, err
	}
	if !resp.Succeeded {
		set, err := s.reread(t, o.rec.Pair)
		return outcome{settled: set}, err
	}
	s.took(name, next, after, resp.Header.Revision)
	return outcome{done: true, past: after.settled}, nil
}

// successor is whom a mutex passes to.
type successor struct {
	entry *entry
	rec   ownerRecord
	lease int64
}

// succeed adds to t that the mutex passes to the first waiter present, or that
// there is none; then it returns nil.
func (s *Store) succeed(t *txn, name service.Name, v *sight, removal bool) (*successor, error) {
	declared := v.settings()
	if removal {
		declared = nil
	}
	settings, err := s.cfg.Policy.Resolve(name, declared)
	if v.head == nil || err != nil {
		t.nothingNewer(s.keys.line(name), v.rev)
		s.dead(t, v.dead)
		return nil, nil // nobody waits, or, undeclared and denied, nobody may
	}
	head := v.head
	next := &successor{entry: head, rec: grantTo(head, settings.Renew(declared != nil, head.rec.domain())), lease: head.rec.Lease}
	if s.lost.has(next.lease) {
		// The head's replica has yet to notice; ours will do until it guards.
		l, err := s.reserve(s.ownerPool(next.rec.terms().Window()))
		if err != nil {
			return nil, err
		}
		defer s.ownerPool(next.rec.terms().Window()).done(l)
		next.lease = l.id
	}
	t.unchanged(s.keys.entry(name, head.pair), head.rev)
	t.notSince(s.keys.settled(name, head.pair), head.rev)
	s.nobodyBefore(t, name, v)
	t.exists(s.keys.replica(head.rec.Replica))
	t.put(s.keys.owner(name), next.rec, next.lease)
	t.delete(s.keys.entry(name, head.pair))
	return next, nil
}

// nobodyBefore adds to t that none of those before the head is present.
func (s *Store) nobodyBefore(t *txn, name service.Name, v *sight) {
	s.dead(t, v.dead)
	const most = 64 // of the 128 that etcd allows to one transaction
	if len(v.ahead) > most {
		t.nothingNewer(s.keys.line(name), v.rev)
		return
	}
	for _, e := range v.ahead {
		t.notSince(s.keys.entry(name, e.pair), e.rev)
	}
}

// grantTo returns the record by which the place e becomes an ownership.
func grantTo(e *entry, terms service.Terms) ownerRecord {
	rec := ownerRecord{
		header: current, Contender: e.rec.Contender, Pair: e.pair, AcquiredAt: now(),
		Metadata: e.rec.Metadata, Replica: e.rec.Replica, Poll: e.rec.Poll,
		Joined: e.joined, JoinedAt: &e.rec.JoinedAt, asked: e.rec.asked,
	}
	rec.setTerms(terms)
	return rec
}

// remains is what an ended ownership leaves behind.
type remains struct {
	place   *entryRecord // put back, away
	pair    service.Pair
	history *historyRecord
	settled settledRecord
}

// leaveBehind adds to t what becomes of the ended ownership: it is settled and
// in the history, or, undone, its place is put back.
func (s *Store) leaveBehind(t *txn, name service.Name, o *owner, v *sight, e ending) (remains, error) {
	if e.how == "" {
		return s.putBack(t, name, o)
	}
	l, err := s.reserve(&s.settledPool)
	if err != nil {
		return remains{}, err
	}
	rec := settledRecord{
		header: current, Contender: o.rec.Contender, Ended: e.how, Fence: o.fence, AcquiredAt: o.rec.AcquiredAt,
		EndedAt: now(), MaxHold: e.maxHold, OperationID: e.opID, Reason: e.reason,
	}
	if e.opID != "" {
		t.unchanged(s.keys.settled(name, o.rec.Pair), e.settled)
	}
	t.put(s.keys.settled(name, o.rec.Pair), rec, l.id)
	switch {
	case e.removal:
		t.delete(s.keys.declared(name))
		t.delete(s.keys.history(name))
		return remains{settled: rec}, nil
	case v.declared == nil:
		return remains{settled: rec}, nil
	}
	history := v.history.with(rec)
	t.unchanged(s.keys.history(name), v.historyRev)
	t.put(s.keys.history(name), history, 0)
	return remains{history: &history, settled: rec}, nil
}

// putBack adds to t that the place which the grant took is in line again,
// away, in its old order.
func (s *Store) putBack(t *txn, name service.Name, o *owner) (remains, error) {
	if o.rec.Joined == 0 {
		return remains{}, nil
	}
	l, err := s.reserve(&s.awayPool)
	if err != nil {
		return remains{}, err
	}
	joinedAt := o.rec.AcquiredAt
	if o.rec.JoinedAt != nil {
		joinedAt = *o.rec.JoinedAt
	}
	place := entryRecord{
		header: current, Contender: o.rec.Contender, Joined: o.rec.Joined, JoinedAt: joinedAt,
		Poll: o.rec.Poll, Replica: s.id, Metadata: o.rec.Metadata, asked: o.rec.asked,
	}
	t.put(s.keys.entry(name, o.rec.Pair), place, l.id)
	return remains{place: &place, pair: o.rec.Pair}, nil
}

// took takes a committed end, or a promotion, into the view, before the watch
// brings it: a waiter of ours is answered at once.
func (s *Store) took(name service.Name, next *successor, after remains, rev int64) {
	v := s.view
	v.mu.Lock()
	defer v.mu.Unlock()
	m := v.at(name)
	if after.place != nil {
		v.applyEntry(m, after.pair, after.place, rev)
	}
	if after.history != nil {
		v.applyHistory(m, after.history, rev)
	}
	if next == nil {
		v.applyOwner(m, nil, rev, 0)
		return
	}
	v.buryEntry(m, next.entry.pair, rev)
	v.applyOwner(m, &next.rec, rev, next.lease)
}

// mislaid notes that a lease which was used is gone: ours are replaced, and a
// waiter's is not used again.
func (s *Store) mislaid(next *successor) {
	s.settledPool.drop()
	s.awayPool.drop()
	if next != nil {
		s.lost.add(next.lease)
		s.forgetLease(next.lease)
	}
}

// expire ends an ownership whose W is over.
func (s *Store) expire(name service.Name, o *owner) error {
	e := ending{how: service.EndedExpired}
	if o.rec.Replica != s.id {
		e.dead = o.rec.Replica
	}
	if t := o.rec.terms(); t.MaxHold > 0 && o.held(o.end) >= t.MaxHold {
		e.maxHold = true
	}
	if e.dead != "" && o.rec.Poll != "" && o.rec.Joined != 0 {
		// A hand-over to a poll of a replica that has died since: it was never
		// guarded, and most likely nobody was told of it. The turn passes on,
		// and the place stays.
		e = ending{dead: e.dead}
	}
	_, err := s.end(name, o, e)
	return err
}

// passOn ends an ownership that nobody was told of.
func (s *Store) passOn(name service.Name, o *owner) error {
	_, err := s.end(name, o, ending{})
	return err
}

// passOnNow ends what was granted to a request whose caller is gone. When that
// fails, tend goes on with it.
func (s *Store) passOnNow(g *grant) {
	for {
		o := s.view.look(g.poll.name, g.poll.pair, false).owner
		if o == nil || o.rec.Poll != g.poll.id || !g.undone {
			return
		}
		if err := s.passOn(g.poll.name, o); err != nil {
			return
		}
	}
}

// promote gives an idle mutex to the head of its line.
func (s *Store) promote(name service.Name, head *entry) error {
	v := s.view.look(name, head.pair, false)
	if v.owner != nil || v.head == nil {
		return nil
	}
	t := &txn{mutex: name}
	t.absent(s.keys.owner(name))
	t.unchanged(s.keys.declared(name), v.declaredRev)
	next, err := s.succeed(t, name, &v, false)
	if err != nil || next == nil {
		return err
	}
	resp, err := s.commit(t)
	if leaseGone(err) {
		s.mislaid(next)
		return nil
	}
	if err != nil {
		return err
	}
	if !resp.Succeeded {
		_, err := s.reread(t, "")
		return err
	}
	s.took(name, next, remains{}, resp.Header.Revision)
	return nil
}
