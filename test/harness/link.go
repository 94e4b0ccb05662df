package harness

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// inFlight is how many bytes a direction takes in before they are passed on.
// Then the sender notices, as with full buffers of a real line.
const inFlight = 4 << 20

// link is a connection of a client, and the one that was made for it.
type link struct {
	proxy          *Proxy
	client, server *net.TCPConn // server is nil until it was dialed
	broken         bool         // guarded by Proxy.mu
	halves         [2]half
}

// half is what is on its way in one direction.
type half struct {
	chunks  []chunk    // guarded by Proxy.mu
	bytes   int        // guarded by Proxy.mu; of all chunks
	changed *sync.Cond // of Proxy.mu
}

// chunk is what was read at once: bytes, or the error that ended the stream.
type chunk struct {
	read  time.Time
	bytes []byte
	err   error
}

func newLink(p *Proxy, client *net.TCPConn) *link {
	l := &link{proxy: p, client: client}
	for d := range l.halves {
		l.halves[d].changed = sync.NewCond(&p.mu)
	}
	return l
}

// wake needs Proxy.mu.
func (l *link) wake() {
	for d := range l.halves {
		l.halves[d].changed.Broadcast()
	}
}

// serve passes on whatever the client sends, of which its coming is the first,
// and whatever the server answers.
func (l *link) serve() {
	l.push(ToServer, chunk{read: time.Now()})
	go l.receive(ToServer, l.client)
	if _, ok := l.pop(ToServer); !ok || !l.dial() {
		return
	}
	go l.receive(ToClient, l.server)
	var sends sync.WaitGroup
	sends.Go(func() { l.send(ToServer, l.server) })
	sends.Go(func() { l.send(ToClient, l.client) })
	sends.Wait()
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	if !l.broken {
		_, _ = l.client.Close(), l.server.Close()
		delete(l.proxy.links, l)
	}
}

// dial is false when the link was broken meanwhile, or is now because nobody
// answers.
func (l *link) dial() bool {
	c, err := net.Dial("tcp", l.proxy.upstream)
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	if err == nil {
		l.server = c.(*net.TCPConn)
	}
	if err != nil || l.broken {
		l.proxy.reset(l)
		return false
	}
	return true
}

// receive reads one direction until its end.
func (l *link) receive(d Direction, from *net.TCPConn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		c := chunk{read: time.Now(), bytes: append([]byte(nil), buf[:n]...), err: err}
		if !l.push(d, c) || err != nil {
			return
		}
	}
}

// send writes one direction until its end, which it passes on.
func (l *link) send(d Direction, to *net.TCPConn) {
	for {
		c, ok := l.pop(d)
		if !ok {
			return
		}
		_, err := to.Write(c.bytes)
		switch {
		case err == nil && c.err == nil:
			continue
		case err == nil && errors.Is(c.err, io.EOF):
			_ = to.CloseWrite()
		default:
			l.proxy.change(func() { l.proxy.reset(l) })
		}
		return
	}
}

// push waits for room. It is false when the link was broken.
func (l *link) push(d Direction, c chunk) bool {
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	h := &l.halves[d]
	for h.bytes > inFlight && !l.broken {
		h.changed.Wait()
	}
	h.chunks = append(h.chunks, c)
	h.bytes += len(c.bytes)
	h.changed.Broadcast()
	return !l.broken
}

// pop returns the next chunk when it is due: after its delay, and not while the
// direction is held. It is false when the link was broken.
func (l *link) pop(d Direction) (chunk, bool) {
	p, h := l.proxy, &l.halves[d]
	p.mu.Lock()
	defer p.mu.Unlock()
	for !l.broken {
		if len(h.chunks) == 0 || p.held[d] {
			h.changed.Wait()
			continue
		}
		c := h.chunks[0]
		late := time.Until(c.read.Add(p.delay[d]))
		if late <= 0 {
			h.chunks = h.chunks[1:]
			h.bytes -= len(c.bytes)
			h.changed.Broadcast()
			return c, true
		}
		alarm := time.AfterFunc(late, func() { l.ring(h) })
		h.changed.Wait()
		alarm.Stop()
	}
	return chunk{}, false
}

// ring wakes whoever waits for h. It takes the lock so that it does not come
// before they wait.
func (l *link) ring(h *half) {
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	h.changed.Broadcast()
}
