package servicetest

import (
	"context"
	"iter"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// eventLog is what happened to a mutex, as far as it was not compacted.
type eventLog struct {
	events  []service.Event
	dropped int // how many were compacted away
}

// emit adds an event to what the change says.
func (c *change) emit(t service.EventType, who service.ContenderID, fence service.Fence) {
	c.emitFor(service.Event{Type: t, Contender: who, Fence: fence})
}

func (c *change) emitFor(ev service.Event) {
	id := c.id
	c.id.Index++
	ev.ID, ev.Mutex = &id, c.mx.name
	c.mx.log.events = append(c.mx.log.events, ev)
}

// announce tells of what no change causes, to those who read at the moment.
func (m *Memory) announce(mx *mutex, ev service.Event) {
	ev.Mutex = mx.name
	mx.log.events = append(mx.log.events, ev)
	m.wake()
}

// Compact forgets all events up to now, as etcd's compaction does: whoever
// resumes from before gets a reset.
func (m *Memory) Compact() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.compacted = m.revision
	for _, mx := range m.mutexes {
		mx.log.dropped += len(mx.log.events)
		mx.log.events = nil
	}
}

// Events implements service.Store.
func (m *Memory) Events(ctx context.Context, name service.Name, after *service.EventID) iter.Seq2[service.Event, error] {
	return func(yield func(service.Event, error) bool) {
		next := -1 // not placed yet
		for {
			events, cursor, news, err := m.eventsFrom(ctx, name, after, next)
			if err != nil {
				yield(service.Event{}, err)
				return
			}
			for _, ev := range events {
				if !yield(ev, nil) {
					return
				}
			}
			next = cursor
			select {
			case <-news:
			case <-ctx.Done():
			}
		}
	}
}

// eventsFrom returns the events at next and beyond, where to go on, and a
// channel that is closed by the next change.
func (m *Memory) eventsFrom(ctx context.Context, name service.Name, after *service.EventID, next int) ([]service.Event, int, <-chan struct{}, error) {
	unlock, err := m.enter(ctx, name)
	if err != nil {
		return nil, 0, nil, err
	}
	defer unlock()
	mx, err := m.known(name)
	if err != nil {
		return nil, 0, nil, err
	}
	end := mx.log.dropped + len(mx.log.events)
	gap := next >= 0 && next < mx.log.dropped
	if next < 0 {
		next, gap = m.place(mx, after)
	}
	if gap {
		return []service.Event{m.reset(mx)}, end, m.changed, nil
	}
	// The slice is only ever appended to, so it can be read without the lock.
	return mx.log.events[next-mx.log.dropped:], end, m.changed, nil
}

// place finds where a reader goes on that has seen everything up to after, or
// reports a gap.
func (m *Memory) place(mx *mutex, after *service.EventID) (next int, gap bool) {
	end := mx.log.dropped + len(mx.log.events)
	if after == nil {
		return end, false
	}
	if after.Revision < m.compacted || after.Revision > m.revision {
		return end, true
	}
	for i, ev := range mx.log.events {
		if ev.ID != nil && later(*ev.ID, *after) {
			return mx.log.dropped + i, false
		}
	}
	return end, false
}

func later(a, b service.EventID) bool {
	return a.Revision > b.Revision || a.Revision == b.Revision && a.Index > b.Index
}

// reset is the event in place of those that are gone.
func (m *Memory) reset(mx *mutex) service.Event {
	state := m.view(mx)
	id := service.EventID{Revision: m.revision}
	for _, ev := range mx.log.events {
		if ev.ID != nil && later(*ev.ID, id) {
			id = *ev.ID // the state contains it
		}
	}
	return service.Event{ID: &id, Type: service.EventReset, Mutex: mx.name, State: &state}
}
