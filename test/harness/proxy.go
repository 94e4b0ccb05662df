package harness

import (
	"net"
	"sync"
	"testing"
	"time"
)

// Direction is one half of a connection through a Proxy.
type Direction int

// The directions.
const (
	ToServer Direction = iota // requests
	ToClient                  // answers
)

// Proxy is a TCP link that a test can break. It holds back bytes and the ends
// of streams alike, as a black hole does. (toxiproxy drops the bytes, which
// breaks streams when it heals, and lets ends through.)
type Proxy struct {
	upstream string
	listener net.Listener

	mu    sync.Mutex
	held  [2]bool          // guarded by mu
	delay [2]time.Duration // guarded by mu
	cut   bool             // guarded by mu
	links map[*link]bool   // guarded by mu
}

// NewProxy returns a link to upstream, host:port. It is closed with the test.
func NewProxy(t testing.TB, upstream string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{upstream: upstream, listener: l, links: make(map[*link]bool)}
	go p.accept()
	t.Cleanup(func() {
		_ = l.Close()
		p.Cut()
	})
	return p
}

// Addr returns the address for clients, host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Hold lets nothing through in these directions, in both when none is given;
// nobody at either end is told. New connections are held, too.
func (p *Proxy) Hold(ds ...Direction) {
	p.change(func() {
		for _, d := range both(ds) {
			p.held[d] = true
		}
	})
}

// Delay makes whatever goes in these directions late by d, as a long line does:
// what follows is on its way meanwhile. It holds for what is on its way already.
func (p *Proxy) Delay(d time.Duration, ds ...Direction) {
	p.change(func() {
		for _, dir := range both(ds) {
			p.delay[dir] = d
		}
	})
}

// Cut resets every connection, and each new one, until Heal.
func (p *Proxy) Cut() {
	p.change(func() {
		p.cut = true
		for l := range p.links {
			p.reset(l)
		}
	})
}

// Reset resets every connection once; new ones work.
func (p *Proxy) Reset() {
	p.change(func() {
		for l := range p.links {
			p.reset(l)
		}
	})
}

// Heal ends every fault. What was held back or is on its way goes through now.
func (p *Proxy) Heal() {
	p.change(func() {
		p.cut = false
		p.held = [2]bool{}
		p.delay = [2]time.Duration{}
	})
}

func both(ds []Direction) []Direction {
	if len(ds) == 0 {
		return []Direction{ToServer, ToClient}
	}
	return ds
}

func (p *Proxy) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	for l := range p.links {
		l.wake()
	}
}

// reset needs p.mu.
func (p *Proxy) reset(l *link) {
	l.broken = true
	for _, c := range []*net.TCPConn{l.client, l.server} {
		if c != nil {
			_ = c.SetLinger(0) // so that Close sends a reset
			_ = c.Close()
		}
	}
	delete(p.links, l)
	l.wake()
}

func (p *Proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.adopt(c.(*net.TCPConn))
	}
}

// adopt makes c a connection through this link.
func (p *Proxy) adopt(c *net.TCPConn) {
	l := newLink(p, c)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.links[l] = true
	if p.cut {
		p.reset(l)
		return
	}
	go l.serve()
}
