package etcdstore_test

import (
	"context"
	"log/slog"
	"os"
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
	server, err := embedetcd.Start(ctx, embedetcd.Config{Dir: memoryDir(t), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return server.Client()
}

// memoryDir returns a directory that is no disk, where there is such a thing:
// a disk that stalls for 200 ms, as they do just after etcd's start, says
// nothing about windows of 300 ms.
func memoryDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "holdfast-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
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
