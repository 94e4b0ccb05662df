package servicetest

import "github.com/holdfast-lock/holdfast/internal/service"

// grant is an ownership on its way to its owner.
type grant struct {
	store *Memory
	mx    *mutex
	owner *owner
	poll  *poll
	view  service.Ownership
}

// Ownership implements service.Grant.
func (g *grant) Ownership() service.Ownership { return g.view }

// Told implements service.Grant.
func (g *grant) Told() {
	g.store.mu.Lock()
	defer g.store.mu.Unlock()
	g.owner.told = true
}

// Lost implements service.Grant.
func (g *grant) Lost() {
	g.store.mu.Lock()
	defer g.store.mu.Unlock()
	if !g.store.closed {
		g.store.lose(g.mx, g.owner, g.poll)
	}
}

// lose passes on an ownership that nobody was told of, as far as it is still
// this poll's. The token is not spent: nothing is settled. To those who read
// events it ended by itself, as one does whose client has gone.
func (m *Memory) lose(mx *mutex, o *owner, p *poll) {
	if mx.owner != o || o.poll != p || o.told {
		return
	}
	c := m.begin(mx)
	m.stopWindows(o)
	mx.owner = nil
	c.emit(service.EventExpired, o.party.Contender, o.fence)
	if o.joined != 0 {
		back := o.entry
		back.poll = nil
		mx.insert(&back)
		m.stepAway(mx, &back)
	}
	m.handOver(c)
}
