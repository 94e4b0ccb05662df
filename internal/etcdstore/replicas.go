package etcdstore

import (
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// sign is what is known of a replica's key.
type sign struct {
	alive bool
	rev   int64         // as of then
	since time.Duration // window time
}

// alive reports whether a replica is, as far as the view knows. mu is held.
func (v *view) alive(id string) bool { return v.replicas[id].alive }

// applyReplica takes in a write or the end of a replica's key. mu is held.
func (v *view) applyReplica(id string, alive bool, rev int64) {
	was, known := v.replicas[id]
	if rev <= was.rev || !known && v.isPast(rev) {
		return
	}
	if was.alive == alive {
		v.replicas[id] = sign{alive: alive, rev: rev, since: was.since}
		return
	}
	v.replicas[id] = sign{alive: alive, rev: rev, since: v.clock.Now()}
	if id == v.me && !alive {
		v.buried()
	}
	// Its owners may have to be ended by us, its waiters count anew.
	for _, m := range v.mutexes {
		if m.owner == nil && len(m.line) > 0 {
			v.tend(m)
		} else if m.owner != nil && m.owner.rec.Replica == id {
			v.schedule(m, m.owner.end)
		}
	}
}

// applyReplicas takes in all replicas as they were read at rev. mu is held.
func (v *view) applyReplicas(k keys, kvs []*mvccpb.KeyValue, rev int64) {
	for _, kv := range kvs {
		_, _, id := k.parse(string(kv.Key))
		v.applyReplica(id, true, rev)
	}
	for id, s := range v.replicas {
		if s.alive && s.rev < rev {
			v.applyReplica(id, false, rev)
		}
	}
}

// buryReplicas forgets those that are dead, once the watch has passed that: a
// replica has a new id at every start. mu is held.
func (v *view) buryReplicas() {
	for id, s := range v.replicas {
		if !s.alive && s.rev <= v.rev {
			delete(v.replicas, id)
		}
	}
}

// present reports whether e counts: its poll is open on a replica that is
// alive. mu is held.
func (v *view) present(e *entry) bool { return e.rec.Present && v.alive(e.rec.Replica) }

// headOf returns the first present in line, who stands before it without being
// present, and the replicas that must be dead for that: the view may have a
// place before it has the sign of its replica. Without a head, they are of the
// whole line. pair is passed over. mu is held.
func (v *view) headOf(m *mutex, pair service.Pair) (head *entry, ahead []*entry, dead []string) {
	for _, e := range m.line {
		if v.present(e) {
			return e, ahead, dead
		}
		if e.pair == pair {
			continue
		}
		ahead = append(ahead, e)
		if e.rec.Present && !slices.Contains(dead, e.rec.Replica) {
			dead = append(dead, e.rec.Replica)
		}
	}
	return nil, ahead, dead
}

// countPresent returns how many are present in m's line. mu is held.
func (v *view) countPresent(m *mutex) int {
	n, _ := v.crowd(m)
	return n
}

// crowd returns how many are present in m's line, and the replicas that must be
// dead for there not to be more. mu is held.
func (v *view) crowd(m *mutex) (present int, dead []string) {
	for _, e := range m.line {
		switch {
		case v.present(e):
			present++
		case e.rec.Present && !slices.Contains(dead, e.rec.Replica):
			dead = append(dead, e.rec.Replica)
		}
	}
	return present, dead
}
