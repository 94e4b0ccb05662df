package etcdstore

import (
	"crypto/rand"
	"slices"
	"time"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// poll is one acquire request of this replica. Its id stands in the entry and
// in the owner's record that it wrote, or that a hand-over wrote for it: only
// this request answers that grant, and only what still carries this id is
// undone when the request ends untold.
type poll struct {
	id   string
	name service.Name
	pair service.Pair
	woke chan struct{} // one slot: level-triggered, the woken one looks again

	dead time.Time // when it ended untold; zero while it lives; guarded by view.mu
}

// untoldFor is how long what an ended request may still have brought about is
// looked out for: a proposal that timed out can yet be committed when the
// members find each other again.
const untoldFor = 5 * time.Minute

// open registers a new request.
func (v *view) open(name service.Name, pair service.Pair) *poll {
	p := &poll{id: rand.Text(), name: name, pair: pair, woke: make(chan struct{}, 1)}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.polls[p.id] = p
	m := v.at(name)
	if m.polls == nil {
		m.polls = map[service.Pair][]*poll{}
	}
	m.polls[pair] = append(m.polls[pair], p)
	return p
}

// told ends a request whose client has its answer, or whose end left nothing
// behind.
func (v *view) told(p *poll) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !p.dead.IsZero() {
		return
	}
	delete(v.polls, p.id)
	v.unhook(p)
}

// untold ends a request that may have left something behind. What carries its
// id, now or later, is undone by tend.
func (v *view) untold(p *poll) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !p.dead.IsZero() {
		return
	}
	p.dead = time.Now()
	m := v.unhook(p)
	if e := m.entries[p.pair]; e != nil && v.isAbandoned(e) {
		m.suspects = append(m.suspects, p.pair)
	}
	v.tend(m)
}

func (v *view) unhook(p *poll) *mutex {
	m := v.at(p.name)
	rest := slices.DeleteFunc(m.polls[p.pair], func(q *poll) bool { return q == p })
	if m.polls[p.pair] = rest; len(rest) == 0 {
		delete(m.polls, p.pair)
	}
	v.sweep(m)
	return m
}

// bury forgets requests that ended long ago.
func (v *view) bury() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for id, p := range v.polls {
		if !p.dead.IsZero() && time.Since(p.dead) > untoldFor {
			delete(v.polls, id)
		}
	}
}

// isUntold reports whether a grant that carries this poll was never told of.
// mu is held.
func (v *view) isUntold(id string) bool {
	p := v.polls[id]
	return p != nil && !p.dead.IsZero()
}

// isAbandoned reports whether an entry of ours that says present has no
// request behind it. mu is held.
func (v *view) isAbandoned(e *entry) bool {
	if !e.rec.Present || e.rec.Replica != v.me {
		return false
	}
	p := v.polls[e.rec.Poll]
	return p == nil || !p.dead.IsZero()
}

func (p *poll) nudge() {
	select {
	case p.woke <- struct{}{}:
	default:
	}
}
