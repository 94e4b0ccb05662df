package servicetest

import (
	"context"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// Guard implements service.Store.
func (m *Memory) Guard(ctx context.Context, req service.GuardRequest) (service.Ownership, error) {
	unlock, err := m.enter(ctx, req.Mutex)
	if err != nil {
		return service.Ownership{}, err
	}
	defer unlock()
	mx := m.mutex(req.Mutex)
	if !mx.ownedBy(req.Party.Pair) {
		if s, ok := mx.outcomeOf(req.Party.Pair); ok && s.maxHold {
			return service.Ownership{}, mx.refusal(service.KindMaxHoldReached)
		}
		return service.Ownership{}, mx.ended(service.KindNotOwner, req.Party.Pair)
	}
	o := mx.owner
	terms := m.settings(mx).Renew(mx.isDeclared(), o.asked)
	if o.outlived(terms) {
		return service.Ownership{}, mx.refusal(service.KindMaxHoldReached)
	}
	o.told = true // whoever guards knows that it owns
	m.begin(mx).emit(service.EventGuarded, o.party.Contender, o.fence)
	m.startWindows(mx, o, terms)
	return o.view(), nil
}

// GuardMany implements service.Store. In memory there is no write to save.
func (m *Memory) GuardMany(ctx context.Context, reqs []service.GuardRequest) []service.GuardResult {
	results := make([]service.GuardResult, len(reqs))
	for i, req := range reqs {
		results[i].Ownership, results[i].Err = m.Guard(ctx, req)
	}
	return results
}

// Release implements service.Store.
func (m *Memory) Release(ctx context.Context, req service.ReleaseRequest) (service.Released, error) {
	unlock, err := m.enter(ctx, req.Mutex)
	if err != nil {
		return 0, err
	}
	defer unlock()
	mx := m.mutex(req.Mutex)
	before, known := mx.outcomeOf(req.Party.Pair)
	// First: a late duplicate of a release that left the line must not touch
	// what the same token began afterwards.
	if known && req.OperationID != "" && before.operation == req.OperationID {
		if before.past.Ended == service.EndedReleased {
			return service.ReleasedNow, nil
		}
		return service.LeftLine, nil
	}
	if mx.ownedBy(req.Party.Pair) {
		m.endOwnership(m.begin(mx), service.EndedReleased, "", req.OperationID)
		return service.ReleasedNow, nil
	}
	if e := mx.waiting(req.Party.Pair); e != nil {
		m.leave(m.begin(mx), e, req.OperationID)
		return service.LeftLine, nil
	}
	if outcome, ok := before.outcome(); known && ok {
		return outcome, nil
	}
	return 0, mx.ended(service.KindNotOwner, req.Party.Pair)
}

// leave takes a party out of the line for good.
func (m *Memory) leave(c *change, e *entry, operation string) {
	m.remove(c.mx, e)
	past := service.PastOwnership{Contender: e.party.Contender, EndedAt: c.at, Ended: service.EndedLeft}
	c.mx.settle(e.party.Pair, settled{past: past, operation: operation})
	c.emit(service.EventLeft, e.party.Contender, 0)
	if e.poll != nil {
		e.poll.end(c.mx.refusal(service.KindLeftLine))
	}
}

// Check implements service.Store.
func (m *Memory) Check(ctx context.Context, name service.Name) (service.Fence, error) {
	unlock, err := m.enter(ctx, name)
	if err != nil {
		return 0, err
	}
	defer unlock()
	mx, err := m.known(name)
	if err != nil || mx.owner == nil {
		return 0, err
	}
	return mx.owner.fence, nil
}

// Break implements service.Store.
func (m *Memory) Break(ctx context.Context, req service.BreakRequest) (service.PastOwnership, error) {
	unlock, err := m.enter(ctx, req.Mutex)
	if err != nil {
		return service.PastOwnership{}, err
	}
	defer unlock()
	mx, err := m.known(req.Mutex)
	if err != nil {
		return service.PastOwnership{}, err
	}
	if mx.owner != nil && mx.owner.fence == req.Fence {
		return m.endOwnership(m.begin(mx), service.EndedBroken, req.Reason, ""), nil
	}
	for pair := range mx.settled {
		if s, ok := mx.outcomeOf(pair); ok && s.past.Ended == service.EndedBroken && s.past.Fence == req.Fence {
			return s.past, nil
		}
	}
	return service.PastOwnership{}, mx.refusal(service.KindPreconditionFailed)
}
