package etcdstore_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-lock/holdfast/internal/embedetcd"
	"github.com/holdfast-lock/holdfast/internal/etcdstore"
	"github.com/holdfast-lock/holdfast/internal/service"
	"github.com/holdfast-lock/holdfast/internal/service/servicetest"
)

// etcd starts a real etcd for a test.
func etcd(t *testing.T) *clientv3.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	server, err := embedetcd.Start(ctx, embedetcd.Config{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return server.Client()
}

// replica starts a store on an etcd, below a prefix of its own.
func replica(t *testing.T, client *clientv3.Client, prefix string, policy service.Policy) *etcdstore.Store {
	t.Helper()
	s := etcdstore.New(etcdstore.Config{
		Client: client, Prefix: prefix, Timeout: 5 * time.Second, Policy: policy, Log: slog.New(slog.DiscardHandler),
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := s.Start(ctx); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStore(t *testing.T) {
	client := etcd(t)
	servicetest.TestStore(t, func(t *testing.T, policy service.Policy) service.Store {
		return replica(t, client, "/"+t.Name()+"/", policy)
	}, servicetest.InParallel())
}
