package etcdstore

import (
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// hold remembers the reservations of our place until the next ones, or until
// nil, and ends those before.
func (a *acquiring) hold(line *lease, p *pool, own *lease) {
	if a.letGo != nil {
		a.letGo()
		a.letGo = nil
	}
	if p != nil {
		a.letGo = func() {
			a.s.linePool.done(line)
			p.done(own)
		}
	}
}

// away writes that nobody is behind a place any more: it counts for nothing,
// and is gone after 10 s to 15 s unless its party polls again. false: the
// place is not as e has it any more.
func (s *Store) away(name service.Name, e *entry) (bool, error) {
	l, err := s.reserve(&s.awayPool)
	if err != nil {
		return false, err
	}
	rec := e.rec
	rec.Present, rec.Joined, rec.Lease = false, e.joined, 0
	t := &txn{mutex: name}
	t.unchanged(s.keys.entry(name, e.pair), e.rev)
	t.put(s.keys.entry(name, e.pair), rec, l.id)
	// Who holds it meanwhile is what the refusal will say.
	t.ops = append(t.ops, clientv3.OpGet(s.keys.owner(name)))
	resp, err := s.commit(t)
	if leaseGone(err) {
		s.awayPool.drop()
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !resp.Succeeded {
		_, err := s.reread(t, "")
		return false, err
	}
	return true, s.wentAway(name, e.pair, &rec, resp)
}

func (s *Store) wentAway(name service.Name, pair service.Pair, rec *entryRecord, resp *clientv3.TxnResponse) error {
	v, rev := s.view, resp.Header.Revision
	v.mu.Lock()
	defer v.mu.Unlock()
	m := v.at(name)
	v.applyEntry(m, pair, rec, rev)
	owner := resp.Responses[1].GetResponseRange().Kvs
	if len(owner) == 0 {
		v.applyOwner(m, nil, rev, 0)
		return nil
	}
	return v.apply(m, keyOwner, "", owner[0])
}

// vacate writes away a place that has no request behind it.
func (s *Store) vacate(name service.Name, pair service.Pair) error {
	s.view.mu.Lock()
	var e *entry
	if m := s.view.mutexes[name]; m != nil {
		e = m.entries[pair]
	}
	gone := e == nil || !s.view.isAbandoned(e)
	s.view.mu.Unlock()
	if gone {
		return nil
	}
	_, err := s.away(name, e)
	return err
}

// misplaced takes the place of a party that owns out of the line. Handed over
// to, it would own again, with a token that is spent.
func (s *Store) misplaced(name service.Name, e *entry) error {
	t := &txn{mutex: name}
	t.unchanged(s.keys.entry(name, e.pair), e.rev)
	t.delete(s.keys.entry(name, e.pair))
	resp, err := s.commit(t)
	if err != nil {
		return err
	}
	if !resp.Succeeded {
		_, err := s.reread(t, "")
		return err
	}
	s.view.mu.Lock()
	defer s.view.mu.Unlock()
	s.view.buryEntry(s.view.at(name), e.pair, resp.Header.Revision)
	return nil
}

// placeOf returns the place of e among those present, itself counted as such.
func (v *view) placeOf(name service.Name, e *entry) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	m := v.mutexes[name]
	if m == nil {
		return 0
	}
	place := 1
	for _, other := range m.line {
		if other.joined >= e.joined {
			break
		}
		if v.present(other) {
			place++
		}
	}
	return place
}

// leave takes a party out of the line for good.
func (s *Store) leave(name service.Name, e *entry, opID string, known int64) (outcome, error) {
	l, err := s.reserve(&s.settledPool)
	if err != nil {
		return outcome{}, unread(name, err)
	}
	t := &txn{mutex: name}
	t.unchanged(s.keys.entry(name, e.pair), e.rev)
	if opID != "" {
		t.unchanged(s.keys.settled(name, e.pair), known)
	}
	t.delete(s.keys.entry(name, e.pair))
	t.put(s.keys.settled(name, e.pair), settledRecord{
		header: current, Contender: e.rec.Contender, Ended: service.EndedLeft, EndedAt: now(), OperationID: opID,
	}, l.id)
	resp, err := s.commit(t)
	if leaseGone(err) {
		s.settledPool.drop()
		return outcome{}, nil
	}
	if err != nil {
		return outcome{}, unwritten(name, err)
	}
	if !resp.Succeeded {
		set, err := s.reread(t, e.pair)
		return outcome{settled: set}, unread(name, err)
	}
	s.view.mu.Lock()
	defer s.view.mu.Unlock()
	s.view.buryEntry(s.view.at(name), e.pair, resp.Header.Revision)
	return outcome{done: true}, nil
}
