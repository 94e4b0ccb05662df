package etcdstore

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// isPast reports whether the view has seen everything up to rev. What an answer
// of etcd's tells of that, and the view has not, is gone again: the answer is
// later than the watch was. What the watch itself brings is never past. mu is
// held.
func (v *view) isPast(rev int64) bool { return !v.watching && rev <= v.rev }

// applyOwner takes in a write of the owner's key; rec is nil for a deletion.
// Older news than what is known changes nothing. mu is held.
func (v *view) applyOwner(m *mutex, rec *ownerRecord, rev, lease int64) {
	if rev <= m.ownerRev || m.owner == nil && v.isPast(rev) {
		return
	}
	was := v.busy(m)
	old := m.owner
	m.ownerRev, m.owner = rev, nil
	if old != nil {
		v.leases[old.lease]--
	}
	if rec != nil {
		m.owner = v.newOwner(rec, rev, lease, old)
		v.leases[lease]++
		v.schedule(m, m.owner.end)
		v.wake(m, rec.Pair)
	}
	if old != nil && (rec == nil || rec.Pair != old.rec.Pair) {
		v.wake(m, old.rec.Pair)
	}
	v.touched(m, rev, was)
}

func (v *view) newOwner(rec *ownerRecord, rev, lease int64, old *owner) *owner {
	t := v.clock.Now()
	o := &owner{rec: *rec, rev: rev, lease: lease, fence: rec.Fence, hold: &hold{}}
	o.born = t - time.Duration(rec.HeldMs)*time.Millisecond
	if o.fence == 0 {
		o.fence = service.Fence(rev)
	} else if old != nil && old.fence == o.fence {
		o.hold = old.hold
		if o.hold.guards > 0 {
			o.hold.since, o.hold.rev = t, rev // what was on its way until now has brought this
		}
		// The age that was written was known before the write took its time: an
		// owner that guards without pause would grow old too slowly by it.
		o.born = min(o.born, old.born)
	}
	ttl, window := rec.terms().Cut(o.held(t))
	o.ttlEnd, o.end = t+ttl, t+window
	return o
}

// applyEntry takes in a write of a place in line; rec is nil for a deletion.
// mu is held.
func (v *view) applyEntry(m *mutex, pair service.Pair, rec *entryRecord, rev int64) {
	old, tomb := m.entries[pair], m.tombs[pair]
	if rev >= tomb {
		delete(m.tombs, pair)
	}
	if rev < tomb || rev == tomb && rec != nil || old != nil && rev <= old.rev || old == nil && v.isPast(rev) {
		return
	}
	was := v.busy(m)
	if old != nil {
		i, _ := slices.BinarySearchFunc(m.line, old.joined, byJoined)
		m.line = slices.Delete(m.line, i, i+1)
		delete(m.entries, pair)
	}
	if rec != nil {
		e := &entry{pair: pair, rec: *rec, rev: rev, joined: rec.Joined}
		if e.joined == 0 {
			e.joined = rev
		}
		if m.entries == nil {
			m.entries = map[service.Pair]*entry{}
		}
		i, _ := slices.BinarySearchFunc(m.line, e.joined, byJoined)
		m.line = slices.Insert(m.line, i, e)
		m.entries[pair] = e
		if v.isAbandoned(e) {
			m.suspects = append(m.suspects, pair)
		}
	}
	v.wake(m, pair)
	v.touched(m, rev, was)
}

// buryEntry takes in our own deletion of a place, which the watch has yet to
// confirm: until then an older write that it brings must not revive it. mu is held.
func (v *view) buryEntry(m *mutex, pair service.Pair, rev int64) {
	v.applyEntry(m, pair, nil, rev)
	if rev > v.rev {
		if m.tombs == nil {
			m.tombs = map[service.Pair]int64{}
		}
		m.tombs[pair] = max(rev, m.tombs[pair])
	}
}

// byJoined orders a line. Joined is a revision at which one entry of this line
// was first written, so no two are equal.
func byJoined(e *entry, joined int64) int {
	switch {
	case e.joined < joined:
		return -1
	case e.joined > joined:
		return 1
	}
	return 0
}

// applyDeclared takes in a write of the settings. mu is held.
func (v *view) applyDeclared(m *mutex, rec *declaredRecord, rev int64) {
	if rev <= m.declaredRev && rec != nil || rev < m.declaredRev || m.declared == nil && v.isPast(rev) {
		return
	}
	m.declared, m.declaredRev = rec, rev
	if rec == nil {
		m.declaredRev = 0
	}
	for pair := range m.polls {
		v.wake(m, pair)
	}
	v.touched(m, rev, v.busy(m))
}

// applyHistory takes in a write of the history. mu is held.
func (v *view) applyHistory(m *mutex, rec *historyRecord, rev int64) {
	switch {
	case rec == nil && rev >= m.historyRev:
		m.history, m.historyRev = historyRecord{}, 0
	case rec == nil || rev <= m.historyRev || m.historyRev == 0 && v.isPast(rev):
	default:
		m.history, m.historyRev = *rec, rev
	}
}

func (v *view) busy(m *mutex) bool { return m.owner != nil || len(m.line) > 0 }

// touched is called after every change of m. mu is held.
func (v *view) touched(m *mutex, rev int64, was bool) {
	m.maxRev = max(m.maxRev, rev)
	if rev > v.rev {
		v.ahead[m] = struct{}{}
	}
	if is := v.busy(m); is && !was {
		if v.active++; v.active == 1 {
			v.roused()
		}
	} else if !is && was {
		v.active--
	}
	if m.changed != nil {
		close(m.changed)
		m.changed = nil
	}
	v.tend(m)
}

// wake makes the live polls of a pair look again. mu is held.
func (v *view) wake(m *mutex, pair service.Pair) {
	for _, p := range m.polls[pair] {
		p.nudge()
	}
}

// applyMutex takes in all of a mutex as it was read at rev: what the view has
// beyond that, and is not newer, is gone. A value that cannot be read does not
// keep the others out. mu is held.
func (v *view) applyMutex(k keys, name service.Name, kvs, declared, history []*mvccpb.KeyValue, rev int64) (bad error) {
	m := v.at(name)
	seen := map[service.Pair]bool{}
	owned := false
	for _, kv := range kvs {
		kind, _, pair := k.parse(string(kv.Key))
		owned = owned || kind == keyOwner
		seen[service.Pair(pair)] = true
		bad = errors.Join(bad, v.apply(m, kind, service.Pair(pair), kv))
	}
	if !owned && m.owner != nil && m.ownerRev <= rev {
		v.applyOwner(m, nil, rev, 0)
	}
	for pair, e := range m.entries {
		if !seen[pair] && e.rev <= rev {
			v.buryEntry(m, pair, rev)
		}
	}
	for _, kv := range declared {
		bad = errors.Join(bad, v.apply(m, keyDeclared, "", kv))
	}
	if len(declared) == 0 && m.declared != nil && m.declaredRev <= rev {
		v.applyDeclared(m, nil, rev)
	}
	for _, kv := range history {
		bad = errors.Join(bad, v.apply(m, keyHistory, "", kv))
	}
	if len(history) == 0 && m.historyRev <= rev {
		v.applyHistory(m, nil, rev)
	}
	m.complete = max(m.complete, rev)
	v.sweep(m)
	return bad
}

// apply takes in one write of one of a mutex's keys. mu is held.
func (v *view) apply(m *mutex, kind keyKind, pair service.Pair, kv *mvccpb.KeyValue) error {
	switch kind {
	case keyOwner:
		if kv.ModRevision <= m.ownerRev {
			return nil // our own write, come back
		}
		rec, err := decode[ownerRecord](kv.Value)
		if err != nil {
			return keyError(kv, err)
		}
		v.applyOwner(m, &rec, kv.ModRevision, kv.Lease)
	case keyEntry:
		if e := m.entries[pair]; e != nil && kv.ModRevision <= e.rev {
			return nil
		}
		rec, err := decode[entryRecord](kv.Value)
		if err != nil {
			return keyError(kv, err)
		}
		v.applyEntry(m, pair, &rec, kv.ModRevision)
	case keyDeclared:
		rec, err := decode[declaredRecord](kv.Value)
		if err != nil {
			return keyError(kv, err)
		}
		v.applyDeclared(m, &rec, kv.ModRevision)
	case keyHistory:
		rec, err := decode[historyRecord](kv.Value)
		if err != nil {
			return keyError(kv, err)
		}
		v.applyHistory(m, &rec, kv.ModRevision)
	}
	return nil
}

// remove takes in one deletion of one of a mutex's keys. mu is held.
func (v *view) remove(m *mutex, kind keyKind, pair service.Pair, rev int64) {
	switch kind {
	case keyOwner:
		v.applyOwner(m, nil, rev, 0)
	case keyEntry:
		v.applyEntry(m, pair, nil, rev)
	case keyDeclared:
		v.applyDeclared(m, nil, rev)
	case keyHistory:
		v.applyHistory(m, nil, rev)
	}
}

func keyError(kv *mvccpb.KeyValue, err error) error {
	return fmt.Errorf("key %q: %w", kv.Key, err)
}
