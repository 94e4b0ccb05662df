package servicetest

import (
	"maps"
	"time"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// owner is an ownership. The entry in it is the wish that it came from: the
// party goes back to its place when the grant is lost.
type owner struct {
	entry
	fence    service.Fence
	acquired time.Time
	windows  *windows
	told     bool // the client knows that it owns
}

// windows are what one grant or guard gave.
type windows struct {
	ttl, window   time.Duration
	ttlAt, endsAt time.Time
	maxHold       bool // they were cut
	overdue, end  *time.Timer
}

// view is the ownership as of now.
func (o *owner) view() service.Ownership {
	w, now := o.windows, time.Now()
	return service.Ownership{
		Contender:           o.party.Contender,
		Fence:               o.fence,
		AcquiredAt:          o.acquired,
		Held:                now.Sub(o.acquired),
		TTL:                 w.ttl,
		Transition:          w.window - w.ttl,
		TTLRemaining:        max(0, w.ttlAt.Sub(now)),
		TransitionRemaining: max(0, w.endsAt.Sub(now)),
		Metadata:            maps.Clone(o.metadata),
	}
}

// state is the window that the owner is in.
func (o *owner) state() service.State {
	if time.Now().Before(o.windows.ttlAt) {
		return service.StateTTL
	}
	return service.StateTransition
}

// outlived reports whether the ownership is as old as it may become.
func (o *owner) outlived(t service.Terms) bool {
	return t.MaxHold > 0 && time.Since(o.acquired) >= t.MaxHold
}

// grant makes an entry the owner, in the change c.
func (m *Memory) grant(c *change, e *entry, terms service.Terms) {
	m.remove(c.mx, e)
	o := &owner{entry: *e, fence: service.Fence(c.id.Revision), acquired: c.at}
	c.mx.owner = o
	m.startWindows(c.mx, o, terms)
	c.emit(service.EventAcquired, o.party.Contender, o.fence)
	o.poll.end(nil)
}

// handOver gives a mutex that nobody owns to the first waiter present, in the
// change that freed it.
func (m *Memory) handOver(c *change) {
	if _, err := m.policy.Resolve(c.mx.name, c.mx.declaredSettings()); err != nil {
		m.turnAway(c, err)
		return
	}
	if e := c.mx.head(); e != nil {
		m.grant(c, e, m.settings(c.mx).Renew(c.mx.isDeclared(), e.asked))
	}
}

// turnAway ends every wait for a mutex that has ceased to be one.
func (m *Memory) turnAway(c *change, err error) {
	for e := c.mx.head(); e != nil; e = c.mx.head() {
		m.remove(c.mx, e)
		c.emit(service.EventLeft, e.party.Contender, 0)
		e.poll.end(err)
	}
}

// startWindows starts both windows of o from now, in place of what it had.
func (m *Memory) startWindows(mx *mutex, o *owner, terms service.Terms) {
	m.stopWindows(o)
	now := time.Now()
	w := &windows{}
	w.ttl, w.window = terms.Cut(now.Sub(o.acquired))
	w.ttlAt, w.endsAt = now.Add(w.ttl), now.Add(w.window)
	w.maxHold = w.window < terms.Window()
	o.windows = w
	current := func() bool { return mx.owner == o && o.windows == w }
	if w.ttl < w.window {
		w.overdue = m.after(w.ttl, func() {
			if current() {
				m.announce(mx, service.Event{Type: service.EventTransition, Contender: o.party.Contender, Fence: o.fence})
			}
		})
	}
	w.end = m.after(w.window, func() {
		if current() {
			m.endOwnership(m.begin(mx), service.EndedExpired, "", "")
		}
	})
}

func (m *Memory) stopWindows(o *owner) {
	if o.windows != nil {
		m.cancel(o.windows.overdue)
		m.cancel(o.windows.end)
	}
}

// endings pairs how an ownership ends with the event that says so.
var endings = map[service.Ending]service.EventType{
	service.EndedReleased: service.EventReleased,
	service.EndedExpired:  service.EventExpired,
	service.EndedBroken:   service.EventBroken,
}

// endOwnership settles the ownership and hands the mutex over.
func (m *Memory) endOwnership(c *change, how service.Ending, reason, operation string) service.PastOwnership {
	mx, o := c.mx, c.mx.owner
	past := service.PastOwnership{
		Contender:  o.party.Contender,
		Fence:      o.fence,
		AcquiredAt: o.acquired,
		EndedAt:    c.at,
		Ended:      how,
		Reason:     reason,
	}
	mx.settle(o.party.Pair, settled{past: past, operation: operation, maxHold: how == service.EndedExpired && o.windows.maxHold})
	if mx.isDeclared() {
		mx.past = append([]service.PastOwnership{past}, mx.past...)
		mx.past = mx.past[:min(len(mx.past), historyKept)]
	}
	m.stopWindows(o)
	mx.owner = nil
	c.emitFor(service.Event{Type: endings[how], Contender: o.party.Contender, Fence: o.fence, Reason: reason})
	if o.poll != nil {
		o.poll.end(mx.ended(service.KindTokenSpent, o.party.Pair))
	}
	m.handOver(c)
	return past
}
