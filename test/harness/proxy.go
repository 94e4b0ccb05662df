package harness

import (
	"errors"
	"io"
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
	wake  *sync.Cond
	held  [2]bool          // guarded by mu
	delay [2]time.Duration // guarded by mu
	cut   bool             // guarded by mu
	links map[*link]bool   // guarded by mu
}

// link is a connection of a client, and the one that was made for it.
type link struct {
	client, server *net.TCPConn // server is nil until it was dialed
	broken         bool         // guarded by Proxy.mu
}

// NewProxy returns a link to upstream, host:port. It is closed with the test.
func NewProxy(t testing.TB, upstream string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{upstream: upstream, listener: l, links: make(map[*link]bool)}
	p.wake = sync.NewCond(&p.mu)
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

// Delay makes whatever goes in these directions late, by d to 2d.
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

// Heal ends every fault. What was held back goes through now.
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
	p.wake.Broadcast()
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
}

func (p *Proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		go p.serve(&link{client: c.(*net.TCPConn)})
	}
}

func (p *Proxy) serve(l *link) {
	p.mu.Lock()
	p.links[l] = true
	if p.cut {
		p.reset(l)
	}
	p.mu.Unlock()
	if !p.pass(l, ToServer) {
		return
	}
	c, err := net.Dial("tcp", p.upstream)
	p.mu.Lock()
	if err != nil || l.broken {
		if err == nil {
			_ = c.Close()
		}
		p.reset(l)
		p.mu.Unlock()
		return
	}
	l.server = c.(*net.TCPConn)
	p.mu.Unlock()

	var halves sync.WaitGroup
	halves.Go(func() { p.copy(l, ToServer, l.server, l.client) })
	halves.Go(func() { p.copy(l, ToClient, l.client, l.server) })
	halves.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !l.broken {
		_, _ = l.client.Close(), l.server.Close()
		delete(p.links, l)
	}
}

// copy moves one direction until its end, which it passes on.
func (p *Proxy) copy(l *link, d Direction, to, from *net.TCPConn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if !p.pass(l, d) {
			return
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				p.change(func() { p.reset(l) })
				return
			}
		}
		if errors.Is(err, io.EOF) {
			_ = to.CloseWrite()
			return
		}
		if err != nil {
			p.change(func() { p.reset(l) })
			return
		}
	}
}

// pass waits while d is held, and for its delay. It is false when the link was
// broken.
func (p *Proxy) pass(l *link, d Direction) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if wait := p.delay[d]; wait > 0 {
		p.mu.Unlock()
		time.Sleep(wait)
		p.mu.Lock()
	}
	for p.held[d] && !l.broken {
		p.wake.Wait()
	}
	return !l.broken
}
