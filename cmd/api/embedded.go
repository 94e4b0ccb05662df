package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/holdfast-lock/holdfast/internal/embedetcd"
	"github.com/holdfast-lock/holdfast/internal/etcdstore"
)

// backend is the etcd that everything is kept in: a cluster, or a member
// inside this process.
type backend struct {
	flag    string // that it comes from
	client  *etcdstore.Client
	failed  <-chan error // nil for a cluster: the client finds it again
	stopped chan struct{}
	close   func()
}

func openBackend(ctx context.Context, cfg Config, log *slog.Logger) (*backend, error) {
	if len(cfg.Etcd) > 0 {
		return dialCluster(ctx, cfg, log)
	}
	return startEmbedded(ctx, cfg, log)
}

func startEmbedded(ctx context.Context, cfg Config, log *slog.Logger) (*backend, error) {
	s, err := embedetcd.Start(ctx, embedetcd.Config{Dir: cfg.DataDir, Log: log})
	if err != nil {
		return nil, fmt.Errorf("--data-dir: %w", err)
	}
	return &backend{
		flag:    "--data-dir",
		client:  s.Client(),
		failed:  s.Err(),
		stopped: make(chan struct{}),
		close:   s.Stop,
	}, nil
}

func dialCluster(ctx context.Context, cfg Config, log *slog.Logger) (*backend, error) {
	password, err := cfg.password()
	if err != nil {
		return nil, err
	}
	client, err := etcdstore.Dial(ctx, etcdstore.DialConfig{
		Endpoints: cfg.Etcd,
		CA:        cfg.EtcdCA,
		Cert:      cfg.EtcdCert,
		Key:       cfg.EtcdKey,
		User:      cfg.EtcdUser,
		Password:  password,
		Prefix:    cfg.Prefix,
		Timeout:   cfg.EtcdTimeout,
		Log:       log,
	})
	if err != nil {
		return nil, fmt.Errorf("--etcd: %w", err)
	}
	return &backend{
		flag:    "--etcd",
		client:  client,
		stopped: make(chan struct{}),
		close:   func() { _ = client.Close() },
	}, nil
}

// stop closes the client, or the member. When ctx ends first, the rest is left
// to the end of the process: nothing is lost by that.
func (b *backend) stop(ctx context.Context) error {
	close(b.stopped)
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.close()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
