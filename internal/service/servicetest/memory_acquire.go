package servicetest

import (
	"context"
	"maps"
	"time"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// Acquire implements service.Store.
func (m *Memory) Acquire(ctx context.Context, req service.AcquireRequest) (service.Grant, error) {
	p, err := m.ask(ctx, req)
	if err != nil {
		return nil, err
	}
	patience := time.NewTimer(req.Wait)
	defer patience.Stop()
	select {
	case <-p.decided:
	case <-patience.C:
	case <-ctx.Done():
	}
	return m.answer(ctx, req, p)
}

// ask makes the party the owner, or puts it in line.
func (m *Memory) ask(ctx context.Context, req service.AcquireRequest) (*poll, error) {
	unlock, err := m.enter(ctx, req.Mutex)
	if err != nil {
		return nil, err
	}
	defer unlock()
	mx, err := m.known(req.Mutex)
	if err != nil {
		return nil, err
	}
	terms, err := m.settings(mx).Grant(mx.isDeclared(), req.Asked)
	if err != nil {
		return nil, err
	}
	if mx.ownedBy(req.Party.Pair) {
		return m.acquireAgain(mx, req, terms)
	}
	if s, ok := mx.outcomeOf(req.Party.Pair); ok && s.past.Ended != service.EndedLeft {
		return nil, mx.ended(service.KindTokenSpent, req.Party.Pair)
	}
	return m.acquireAnew(mx, req, terms)
}

// acquireAgain renews the ownership of a party that asks once more.
func (m *Memory) acquireAgain(mx *mutex, req service.AcquireRequest, terms service.Terms) (*poll, error) {
	o := mx.owner
	if o.outlived(terms) {
		return nil, mx.refusal(service.KindMaxHoldReached)
	}
	if o.poll != nil {
		o.poll.end(mx.refusal(service.KindSuperseded))
	}
	o.asked, o.metadata, o.poll = req.Asked, maps.Clone(req.Metadata), newPoll()
	m.begin(mx).emit(service.EventGuarded, o.party.Contender, o.fence)
	m.startWindows(mx, o, terms)
	o.poll.end(nil)
	return o.poll, nil
}

// acquireAnew grants what nobody owns and nobody else waits for. Everybody
// else joins the line; without a wait only a party that has a place there.
func (m *Memory) acquireAnew(mx *mutex, req service.AcquireRequest, terms service.Terms) (*poll, error) {
	e := mx.waiting(req.Party.Pair)
	head := mx.head()
	free := mx.owner == nil && (head == nil || head == e)
	if e == nil {
		if err := m.mayJoin(mx, req, free); err != nil {
			return nil, err
		}
		e = &entry{party: req.Party}
	}
	if e.poll != nil {
		e.poll.end(mx.refusal(service.KindSuperseded))
	}
	p := newPoll()
	e.asked, e.metadata = req.Asked, maps.Clone(req.Metadata)
	c := m.begin(mx)
	if free {
		e.poll = p
		m.grant(c, e, terms)
	} else {
		m.join(c, e, p)
	}
	return p, nil
}

// mayJoin refuses those who have no place: the line is full, or they would not
// wait. A place once taken is kept, however long the line has become.
func (m *Memory) mayJoin(mx *mutex, req service.AcquireRequest, free bool) error {
	if free {
		return nil
	}
	if req.Wait <= 0 {
		return mx.locked(req.Party.Pair)
	}
	if limit := m.settings(mx).MaxWaiters; limit > 0 && mx.present() >= limit {
		e := mx.refusal(service.KindTooManyWaiters)
		e.Waiters = mx.present()
		return e
	}
	return nil
}

// join makes an entry present, at its old place if it has one.
func (m *Memory) join(c *change, e *entry, p *poll) {
	e.poll = p
	m.cancel(e.lapse)
	e.lapse = nil
	if e.joined == 0 {
		e.joined, e.joinedAt = c.id.Revision, c.at
		c.mx.insert(e)
		c.emit(service.EventQueued, e.party.Contender, 0)
	}
}

// answer reads what became of a poll that was decided or is over.
func (m *Memory) answer(ctx context.Context, req service.AcquireRequest, p *poll) (service.Grant, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	mx := m.mutex(req.Mutex)
	if o := mx.owner; o != nil && o.poll == p && !m.closed {
		if ctx.Err() != nil {
			m.lose(mx, o, p)
			return nil, context.Cause(ctx)
		}
		return &grant{store: m, mx: mx, owner: o, poll: p, view: o.view()}, nil
	}
	if e := mx.waiting(req.Party.Pair); e != nil && e.poll == p && !m.closed {
		m.begin(mx)
		m.stepAway(mx, e)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, mx.locked(req.Party.Pair)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return nil, p.err
}

// stepAway ends the presence of a waiter; its place lives on for a while.
func (m *Memory) stepAway(mx *mutex, e *entry) {
	e.poll = nil
	var lapse *time.Timer
	lapse = m.after(placeKept, func() {
		if e.lapse == lapse {
			m.remove(mx, e)
			m.begin(mx).emit(service.EventLeft, e.party.Contender, 0)
		}
	})
	e.lapse = lapse
}

// locked is the refusal of a party that has to wait.
func (mx *mutex) locked(pair service.Pair) *service.Error {
	e := mx.refusal(service.KindLocked)
	e.Waiters = mx.present()
	if mx.waiting(pair) != nil {
		e.Place = mx.ahead(pair) + 1
	}
	return e
}
