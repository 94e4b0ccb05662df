// Package embedetcd runs a single etcd member inside this process. It is used
// in process and listens on nothing but a unix socket in its data directory,
// which is there for etcdctl. It is the only importer of etcd's server.
package embedetcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
)

const (
	// tickMs and electionMs are a tenth of etcd's defaults: those leave time
	// for messages between members, and here is only one. A start waits for
	// up to one election timeout.
	tickMs     = 10
	electionMs = 100

	// quota is the largest that etcd recommends. At its default, 2 GiB, a
	// busy service could run out of space between two compactions.
	quota = 8 << 30

	// compactAfter is how much history is kept; etcd compacts as often.
	compactAfter = "1m"
)

// Config says where the member keeps its data, and where it logs. Etcd's own
// log is passed on from warnings upwards.
type Config struct {
	Dir string // created when missing; belongs to this process alone
	Log *slog.Logger
}

// Server is a running member.
type Server struct {
	etcd    *embed.Etcd
	client  *clientv3.Client
	dir     *dataDir
	log     *bridge
	errs    chan error
	stop    sync.Once
	closing chan struct{} // closed by Stop
	watch   sync.WaitGroup
}

// Start starts the member and returns when it answers, or when ctx ends. An
// error is one line that names the directory: when it cannot be used, when
// another process uses it, or when what is in it is damaged.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	dir, err := openDir(cfg.Dir)
	if err != nil {
		return nil, err
	}
	log := newBridge(cfg.Log)
	e, err := start(ctx, dir, log)
	if err != nil {
		dir.close()
		return nil, fmt.Errorf("data directory %q: etcd: %w", cfg.Dir, err)
	}
	s := &Server{
		etcd: e, client: v3client.New(e.Server), dir: dir, log: log,
		errs: make(chan error, 1), closing: make(chan struct{}),
	}
	s.watch.Go(s.watchErrors)
	return s, nil
}

// start runs etcd's own start in a goroutine of its own, because etcd ends
// the goroutine that finds damaged data.
func start(ctx context.Context, dir *dataDir, log *bridge) (*embed.Etcd, error) {
	type result struct {
		etcd *embed.Etcd
		err  error
	}
	done := make(chan result, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- result{err: fmt.Errorf("%v", p)}
			}
		}()
		e, err := embed.StartEtcd(etcdConfig(dir, log))
		done <- result{e, err}
	}()

	var e *embed.Etcd
	select {
	case r := <-done:
		if r.err != nil {
			return nil, r.err
		}
		e = r.etcd
	case err := <-log.fatal:
		return nil, err
	}
	select {
	case <-e.Server.ReadyNotify():
		return e, nil
	case err := <-log.fatal:
		return nil, err
	case err := <-e.Err():
		e.Close()
		return nil, err
	case <-ctx.Done():
		e.Close()
		return nil, context.Cause(ctx)
	}
}

func etcdConfig(dir *dataDir, log *bridge) *embed.Config {
	cfg := embed.NewConfig()
	cfg.Name = "holdfast"
	cfg.Dir = dir.path
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(log.zap())

	// No listener for peers at all: a unix address would become an abstract
	// socket, which no mode protects. The advertised one is never dialed; as
	// a number it needs no name service.
	peer := url.URL{Scheme: "http", Host: "127.0.0.1:2380"}
	cfg.ListenPeerUrls = nil
	cfg.AdvertisePeerUrls = []url.URL{peer}
	cfg.InitialCluster = cfg.Name + "=" + peer.String()
	client := url.URL{Scheme: "unix", Path: dir.socket()}
	cfg.ListenClientUrls = []url.URL{client}
	cfg.AdvertiseClientUrls = []url.URL{client}
	cfg.EnableGRPCGateway = false

	cfg.TickMs = tickMs
	cfg.ElectionMs = electionMs
	cfg.QuotaBackendBytes = quota
	cfg.AutoCompactionMode = embed.CompactorModePeriodic
	cfg.AutoCompactionRetention = compactAfter
	return cfg
}

// watchErrors reports the first failure until the member is stopped.
func (s *Server) watchErrors() {
	var err error
	select {
	case err = <-s.log.fatal:
	case err = <-s.etcd.Err(): // nil once it is closed
	case <-s.etcd.Server.StopNotify():
		// Etcd stops itself after its last words.
		select {
		case err = <-s.log.fatal:
		default:
			err = errors.New("stopped by itself")
		}
	}
	select {
	case <-s.closing:
	default:
		s.errs <- fmt.Errorf("etcd: %w", err)
	}
}

// Client returns a client that calls the member in process. It is closed by
// Stop.
func (s *Server) Client() *clientv3.Client { return s.client }

// Socket returns the path of the unix socket on which etcdctl reaches the
// member.
func (s *Server) Socket() string { return s.dir.socket() }

// Err yields an error when the member failed while running. What it held in
// memory is lost then; the process should end.
func (s *Server) Err() <-chan error { return s.errs }

// Stop stops the member and gives the directory free. An etcdctl that watches
// over the socket can delay it by about 5 s. It may be called again.
func (s *Server) Stop() {
	s.stop.Do(func() {
		close(s.closing)
		s.log.close()
		_ = s.client.Close() // ends watches; its error is that of a canceled context
		if !s.log.failed() { // else goroutines are missing that Close would wait for
			s.etcd.Close()
			s.watch.Wait()
		}
		s.dir.close()
	})
}
