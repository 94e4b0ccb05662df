package etcdstore

import (
	"container/heap"
	"hash/fnv"
	"time"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// tend is the one mechanism by which a replica sets things right that no
// request will: a window that is over, a mutex that is idle although somebody
// waits, a grant or a place whose request has gone. It is level-triggered:
// called at every change of a mutex, it looks at what is, not at what happened,
// and tries until nothing is left to do. view.mu is held.
func (s *Store) tend(m *mutex) {
	if m.tending || s.ctx.Err() != nil || s.task(m) == nil {
		return // tendTo, where it runs, looks again before it ends
	}
	m.tending = true
	s.wg.Go(func() { s.tendTo(m) })
}

// tendTo does what m needs, one thing after the other.
func (s *Store) tendTo(m *mutex) {
	pause := 10 * time.Millisecond
	for {
		s.view.mu.Lock()
		task := s.task(m)
		if task == nil || s.ctx.Err() != nil {
			m.tending = false
			s.view.sweep(m)
			s.view.mu.Unlock()
			return
		}
		s.view.mu.Unlock()
		s.tending <- struct{}{}
		err := task()
		<-s.tending
		if err != nil {
			s.log.Debug("put off", "mutex", m.name, "cause", err)
			s.sleep(jitter(pause))
			pause = min(2*pause, time.Second)
			continue
		}
		pause = 10 * time.Millisecond
	}
}

// task returns the next thing that m needs from this replica, or nil. A view
// that is behind proves nothing, so then nothing is done. view.mu is held.
func (s *Store) task(m *mutex) func() error {
	v := s.view
	if !v.isCurrent() {
		return nil
	}
	if pair, ok := s.suspect(m); ok {
		return func() error { return s.vacate(m.name, pair) }
	}
	if o := m.owner; o != nil {
		m.strayAt = 0
		if o.rec.Replica == v.me && o.rec.Poll != "" && v.isUntold(o.rec.Poll) {
			return func() error { return s.passOn(m.name, o) }
		}
		if v.isOver(m, o) {
			return func() error { return s.expire(m.name, o) }
		}
		return nil
	}
	head, _, _ := v.headOf(m, "")
	denied := m.declared == nil && s.cfg.Policy.DenyUndeclared // then its waiters leave
	if head == nil || denied || !v.isOurTurn(m, head) {
		return nil
	}
	return func() error { return s.promote(m.name, head) }
}

// suspect returns the next place in line that has nobody behind it.
func (s *Store) suspect(m *mutex) (service.Pair, bool) {
	for len(m.suspects) > 0 {
		pair := m.suspects[0]
		if e := m.entries[pair]; e != nil && s.view.isAbandoned(e) {
			return pair, true
		}
		m.suspects = m.suspects[1:]
	}
	return "", false
}

// othersWait is how long others give the replica whose turn it is to end an
// ownership or to promote its waiter; jittered, lest all of them try.
const othersWait = 200 * time.Millisecond

// revival is how long a sign must have been gone before its replica counts as
// dead to its owners. After etcd was stopped for a while it removes the signs
// of all at once, and each puts its own back as soon as it sees that.
const revival = 500 * time.Millisecond

// patience spreads othersWait over replicas and mutexes, the same each time it
// is asked for.
func (v *view) patience(m *mutex) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(v.me + string(m.name)))
	return othersWait/2 + othersWait/2*time.Duration(h.Sum32()%1000)/1000
}

// isOver reports whether W of an ownership has passed and we are to end it: at
// once as its home, a little later when its home is dead. mu is held.
func (v *view) isOver(m *mutex, o *owner) bool {
	end := o.end
	if o.rec.Replica != v.me {
		if v.alive(o.rec.Replica) {
			return false // its home ends it; should that die, applyReplica looks again
		}
		end = max(end, v.replicas[o.rec.Replica].since+revival) + v.patience(m)
	}
	if v.clock.Now() < end {
		v.schedule(m, end)
		return false
	}
	return o.hold.guards == 0 // a guard that arrived in time is still in flight
}

// isOurTurn reports whether we are to promote the head of an idle mutex. mu is held.
func (v *view) isOurTurn(m *mutex, head *entry) bool {
	if head.rec.Replica == v.me {
		return true
	}
	t := v.clock.Now()
	if m.strayAt == 0 {
		m.strayAt = t + v.patience(m)
	}
	if t < m.strayAt {
		v.schedule(m, m.strayAt)
		return false
	}
	return true
}

// schedule has m tended to when the window clock reaches at. mu is held.
func (v *view) schedule(m *mutex, at time.Duration) {
	if m.inDue && m.dueAt <= at {
		return // looked at before that, and scheduled again then
	}
	m.inDue, m.dueAt = true, at
	heap.Push(&v.due, dueItem{at: at, name: m.name})
	if v.due[0].at == at {
		v.dueSoon()
	}
}

// popDue tends to what is due, and returns how long until the next is.
func (v *view) popDue() time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	t := v.clock.Now()
	for len(v.due) > 0 {
		if wait := v.due[0].at - t; wait > 0 {
			return wait
		}
		item := heap.Pop(&v.due).(dueItem)
		m := v.mutexes[item.name]
		if m == nil || !m.inDue || m.dueAt != item.at {
			continue // an earlier time took its place
		}
		m.inDue = false
		if o := m.owner; o != nil && t < o.end {
			v.schedule(m, o.end) // guarded meanwhile
			continue
		}
		v.tend(m)
	}
	return time.Hour
}

// endDue is the loop behind schedule.
func (s *Store) endDue() {
	// While the window clock stands still the next due time does not come
	// nearer: look again no more often than this.
	const atLeast = 2 * time.Millisecond
	for {
		timer := time.NewTimer(max(atLeast, s.view.popDue()))
		select {
		case <-timer.C:
		case <-s.dueKick:
		case <-s.ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

func (s *Store) kickDue() {
	select {
	case s.dueKick <- struct{}{}:
	default:
	}
}

// dueItem and dueHeap are a heap by time.
type dueItem struct {
	at   time.Duration
	name service.Name
}

type dueHeap []dueItem

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(x any)        { *h = append(*h, x.(dueItem)) }
func (h *dueHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
