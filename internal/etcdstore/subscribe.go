package etcdstore

import (
	"context"
	"iter"
	"math"
	"sync"
	"time"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// subscriberBacklog bounds what is kept for a slow reader; beyond it the
// reader is given the present state in place of what it missed.
const subscriberBacklog = 1024

// subscriber is one reader of a mutex's events.
type subscriber struct {
	woke chan struct{} // one slot

	mu     sync.Mutex
	events []service.Event // guarded by mu
	missed bool            // guarded by mu
}

func (sub *subscriber) push(list []service.Event) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	if sub.events = append(sub.events, list...); len(sub.events) > subscriberBacklog {
		sub.events, sub.missed = nil, true
	}
	sub.nudge()
}

func (sub *subscriber) lost() {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	sub.events, sub.missed = nil, true
	sub.nudge()
}

func (sub *subscriber) nudge() {
	select {
	case sub.woke <- struct{}{}:
	default:
	}
}

func (sub *subscriber) pull() (list []service.Event, missed bool) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	list, missed = sub.events, sub.missed
	sub.events, sub.missed = nil, false
	return list, missed
}

// subscribe returns a subscriber, and the revision after which it hears
// everything.
func (v *view) subscribe(name service.Name) (sub *subscriber, from int64, stop func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	m := v.at(name)
	sub = &subscriber{woke: make(chan struct{}, 1)}
	if m.subs == nil {
		m.subs = map[*subscriber]struct{}{}
	}
	m.subs[sub] = struct{}{}
	return sub, v.rev, func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		delete(m.subs, sub)
		v.sweep(m)
	}
}

// Events implements service.Store.
func (s *Store) Events(ctx context.Context, name service.Name, after *service.EventID) iter.Seq2[service.Event, error] {
	return func(yield func(service.Event, error) bool) {
		sub, from, stop := s.view.subscribe(name)
		defer stop()
		_, newest, err := s.readMutex(name)
		if err != nil {
			yield(service.Event{}, err)
			return
		}
		// The watch may have yet to bring what was before now.
		r := reader{s: s, name: name, yield: yield, after: service.EventID{Revision: newest, Index: math.MaxInt}}
		switch {
		case after != nil && after.Revision > newest:
			// It is of other data, wiped or restored since.
			if !r.reset() {
				return
			}
		case after != nil:
			r.after = *after
			if !r.catchUp(ctx, from) {
				return
			}
		}
		r.follow(ctx, sub)
	}
}

// reader feeds one consumer of events.
type reader struct {
	s     *Store
	name  service.Name
	after service.EventID // the last that the consumer has seen
	yield func(service.Event, error) bool
}

// isNews reports whether the consumer has not seen ev. What it has seen may be
// beyond this replica's view.
func (r *reader) isNews(ev service.Event) bool {
	return ev.ID.Revision > r.after.Revision || ev.ID.Revision == r.after.Revision && ev.ID.Index > r.after.Index
}

// follow yields what the subscriber hears, until the consumer or ctx ends.
// EventTransition is nobody's write: it is told when the ttl window is over.
func (r *reader) follow(ctx context.Context, sub *subscriber) {
	var overdue service.Fence // told of last
	for {
		list, missed := sub.pull()
		if missed && !r.reset() {
			return
		}
		for _, ev := range list {
			if ev.Type == service.EventGuarded {
				overdue = 0
			}
			if r.isNews(ev) && !r.yield(ev, nil) {
				return
			}
		}
		wait, ev := r.transition(overdue)
		if ev != nil {
			if overdue = ev.Fence; !r.yield(*ev, nil) {
				return
			}
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-sub.woke:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			r.yield(service.Event{}, ended(ctx))
			return
		}
		timer.Stop()
	}
}

// transition returns the event if the ttl window has ended and nobody was told,
// else how long until it can.
func (r *reader) transition(told service.Fence) (time.Duration, *service.Event) {
	o := r.s.view.look(r.name, "", false).owner
	if o == nil || o.fence == told || o.ttlEnd == o.end {
		return time.Hour, nil
	}
	if wait := o.ttlEnd - r.s.clock.Now(); wait > 0 {
		return max(wait, 2*time.Millisecond), nil
	}
	return 0, &service.Event{Type: service.EventTransition, Mutex: r.name, Contender: o.rec.Contender, Fence: o.fence}
}

// reset yields the present state, for a gap that cannot be filled.
func (r *reader) reset() bool {
	m, newest, err := r.s.readMutex(r.name)
	if err != nil {
		return r.yield(service.Event{}, err) && false
	}
	return r.yield(service.Event{ID: &service.EventID{Revision: newest}, Type: service.EventReset, Mutex: r.name, State: &m}, nil)
}
