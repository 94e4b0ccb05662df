package main

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// Stop ends the App, in this order, and within --drain:
//
//  1. It is not ready any more, and polls are answered with "draining".
//  2. No connection is accepted any more, and what is in flight is served.
//  3. The store writes away what it kept, and leaves etcd.
//  4. The etcd inside this process is stopped.
//
// It may be called again.
func (a *App) Stop() { a.stop.Do(a.drain) }

func (a *App) drain() {
	whole, cancel := context.WithTimeout(context.Background(), a.cfg.Drain)
	defer cancel()
	// Whatever requests take, a part of the time belongs to the store: what
	// it leaves behind, the other replicas have to wait for.
	requests, done := context.WithTimeout(whole, a.cfg.Drain-min(a.cfg.Drain/4, 2*time.Second))
	defer done()

	a.service.Drain()
	a.closeServer(requests)
	if err := a.store.Stop(whole); err != nil {
		a.log.Warn("the store did not end in order", "error", err)
	}
	if err := a.backend.stop(whole); err != nil {
		a.log.Warn("etcd did not end in time", "error", err)
	}
	a.profiler.Close()
}

func (a *App) closeServer(ctx context.Context) {
	closed := a.fresh.closeSoon()
	err := a.server.Shutdown(ctx)
	closed()
	if err != nil {
		a.log.Warn("requests are cut off", "error", err)
		_ = a.server.Close()
	}
	a.serving.Wait()
}

// abandonWithin bounds the end of a start that failed: etcd may not answer,
// and nothing was promised to anybody yet.
const abandonWithin = time.Second

// abandon undoes a start that failed half-way. It says nothing: the error of
// the start is all that its user needs.
func (a *App) abandon() {
	ctx, cancel := context.WithTimeout(context.Background(), abandonWithin)
	defer cancel()
	if a.listener != nil {
		_ = a.listener.Close()
	}
	a.profiler.Close()
	if a.store != nil {
		_ = a.store.Stop(ctx)
	}
	if a.backend != nil {
		_ = a.backend.stop(ctx)
	}
}

// freshConns are the connections on which no request was seen yet. For such
// http.Server.Shutdown waits up to 5 s, and proxies and browsers open them in
// advance.
type freshConns struct {
	mu    sync.Mutex
	conns map[net.Conn]bool // guarded by mu
}

// settle is how long after the start of a drain a fresh connection may still
// bring its request: it may be in the socket's buffer already.
const settle = 100 * time.Millisecond

func newFreshConns() *freshConns { return &freshConns{conns: make(map[net.Conn]bool)} }

// observe is http.Server.ConnState.
func (f *freshConns) observe(c net.Conn, state http.ConnState) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if state == http.StateNew {
		f.conns[c] = true
	} else {
		delete(f.conns, c)
	}
}

// closeSoon closes, after a moment, the connections that are fresh then. The
// function that it returns gives that up.
func (f *freshConns) closeSoon() (giveUp func()) {
	t := time.AfterFunc(settle, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		for c := range f.conns {
			_ = c.Close()
		}
	})
	return func() { t.Stop() }
}
