package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
)

// profiler serves what the process does at this moment, for go tool pprof, on
// an address of its own that only this machine reaches.
type profiler struct {
	server   *http.Server
	listener net.Listener
}

// openProfiler listens at addr, or, where that is "", does nothing.
func openProfiler(addr string) (*profiler, error) {
	if addr == "" {
		return nil, nil
	}
	tcp, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("--pprof: %w", err)
	}
	l, err := net.ListenTCP("tcp", tcp)
	if err != nil {
		return nil, fmt.Errorf("--pprof: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	p := &profiler{&http.Server{Handler: mux, ReadHeaderTimeout: readHeaderTimeout}, l}
	go func() { _ = p.server.Serve(l) }()
	return p, nil
}

// Close ends it at once: nobody's lock depends on it.
func (p *profiler) Close() {
	if p != nil {
		_ = p.server.Close()
	}
}
