package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/holdfast-lock/holdfast/internal/etcdstore"
	"github.com/holdfast-lock/holdfast/internal/httpapi"
	"github.com/holdfast-lock/holdfast/internal/service"
)

const (
	// readHeaderTimeout bounds how long a connection may be open without a
	// request: there is no limit for a whole request, since polls are long.
	readHeaderTimeout = 10 * time.Second
	// idleTimeout is longer than the 60 s that proxies keep connections for,
	// so that it is the proxy that closes, and never under a request.
	idleTimeout = 75 * time.Second
	// maxHeaderBytes leaves room for a bearer token.
	maxHeaderBytes = 64 << 10
)

// App is the program without its flags and signals: it starts once, and stops
// once.
type App struct {
	cfg Config
	log *slog.Logger

	listener net.Listener
	backend  *backend
	store    *etcdstore.Store
	service  *service.Service
	server   *http.Server
	fresh    *freshConns
	profiler *profiler

	errs    chan error
	serving sync.WaitGroup
	stop    sync.Once
}

// New returns an App. It starts nothing.
func New(cfg Config, log *slog.Logger) *App {
	return &App{cfg: cfg, log: log, errs: make(chan error, 1)}
}

// Start returns when requests are served. What it started before an error, it
// has stopped. Errors name the flag at fault.
func (a *App) Start(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			a.abandon()
		}
	}()
	// The address comes first: in use, it shows that this very service runs
	// already, and that is clearer than its locked directory.
	if a.listener, err = a.listen(); err != nil {
		return err
	}
	if a.profiler, err = openProfiler(a.cfg.Pprof); err != nil {
		return err
	}
	if a.backend, err = openBackend(ctx, a.cfg, a.log); err != nil {
		return err
	}
	if err = a.wire(ctx); err != nil {
		return err
	}
	a.serve()
	if a.cfg.Insecure {
		a.log.Warn("insecure: whoever reaches this address can take, give back and break every lock", "addr", a.Addr().String())
	}
	a.log.Info("listening", "addr", a.Addr().String())
	return nil
}

func (a *App) listen() (net.Listener, error) {
	addr, err := a.cfg.address()
	if err != nil {
		return nil, err
	}
	l, err := net.ListenTCP("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	return l, nil
}

// wire puts the layers on each other, from the store up.
func (a *App) wire(ctx context.Context) error {
	policy := service.Policy{
		DefaultTTL:        a.cfg.DefaultTTL,
		DefaultTransition: a.cfg.DefaultTransition,
		DenyUndeclared:    a.cfg.Undeclared == "deny",
	}
	store := etcdstore.New(etcdstore.Config{
		Client:  a.backend.client,
		Prefix:  a.cfg.Prefix,
		Timeout: a.cfg.EtcdTimeout,
		Policy:  policy,
		Log:     a.log,

		Embedded: len(a.cfg.Etcd) == 0,
	})
	a.service = service.New(store, service.Config{Policy: policy, MaxWait: a.cfg.MaxWait})
	api, err := httpapi.New(httpapi.Config{Service: a.service, Log: a.log})
	if err != nil {
		return err
	}
	a.store = store
	if err := a.load(ctx); err != nil {
		return fmt.Errorf("%s: %w", a.backend.flag, err)
	}
	a.fresh = newFreshConns()
	a.server = &http.Server{
		Handler:           api.Handler(),
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ConnContext:       httpapi.ConnContext,
		ConnState:         a.fresh.observe,
		ErrorLog:          slog.NewLogLogger(a.log.With("component", "http").Handler(), slog.LevelWarn),
	}
	return nil
}

// load starts the store, which waits for etcd: without a majority for ever.
func (a *App) load(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, a.cfg.EtcdTimeout,
		fmt.Errorf("not within %v (is a majority of its members up?)", a.cfg.EtcdTimeout))
	defer cancel()
	return a.store.Start(ctx)
}

// serve serves in the background, and watches what can fail there.
func (a *App) serve() {
	a.serving.Go(func() {
		if err := a.server.Serve(a.listener); !errors.Is(err, http.ErrServerClosed) {
			a.fail(fmt.Errorf("--listen: %w", err))
		}
	})
	go func() {
		select {
		case err := <-a.backend.failed:
			a.fail(err)
		case err := <-a.store.Failed():
			a.fail(fmt.Errorf("%s: %w", a.backend.flag, err))
		case <-a.backend.stopped:
		}
	}()
}

func (a *App) fail(err error) {
	select {
	case a.errs <- err:
	default: // the first one is enough to end
	}
}

// Addr returns the address that is listened on, from Start on.
func (a *App) Addr() net.Addr { return a.listener.Addr() }

// Err yields an error when the App cannot go on. It has to be stopped still.
func (a *App) Err() <-chan error { return a.errs }
