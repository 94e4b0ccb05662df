package etcdstore_test

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-lock/holdfast/internal/embedetcd"
	"github.com/holdfast-lock/holdfast/internal/etcdstore"
	"github.com/holdfast-lock/holdfast/internal/service"
)

// benchEtcd starts an etcd with a real disk under it.
func benchEtcd(b *testing.B) *clientv3.Client {
	b.Helper()
	server, err := embedetcd.Start(b.Context(), embedetcd.Config{Dir: b.TempDir(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(server.Stop)
	return server.Client()
}

func benchStore(b *testing.B, client *clientv3.Client) *etcdstore.Store {
	b.Helper()
	s := etcdstore.New(etcdstore.Config{
		Client: client, Prefix: "/b/", Timeout: 5 * time.Second, Policy: policy, Log: slog.New(slog.DiscardHandler),
	})
	b.Cleanup(func() { _ = s.Stop(b.Context()) })
	if err := s.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	return s
}

// BenchmarkPair sets acquire and release of one's own mutex beside the limit, a
// put and a delete, on the same etcd and with as many workers.
func BenchmarkPair(b *testing.B) {
	client := benchEtcd(b)
	s := benchStore(b, client)
	for _, workers := range []int{1, 32} { // times GOMAXPROCS
		b.Run(fmt.Sprintf("put and delete/workers=%d", workers), func(b *testing.B) {
			var n atomic.Int64
			b.SetParallelism(workers)
			b.RunParallel(func(pb *testing.PB) {
				key := fmt.Sprintf("/raw/%d", n.Add(1))
				for pb.Next() {
					if _, err := client.Put(b.Context(), key, "value"); err != nil {
						b.Fatal(err)
					}
					if _, err := client.Delete(b.Context(), key); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
		b.Run(fmt.Sprintf("acquire and release/workers=%d", workers), func(b *testing.B) {
			var n atomic.Int64
			b.SetParallelism(workers)
			b.RunParallel(func(pb *testing.PB) {
				name := service.Name(fmt.Sprintf("m%d", n.Add(1)))
				for pb.Next() {
					p := service.NewParty("worker", service.NewToken())
					g, err := s.Acquire(b.Context(), service.AcquireRequest{Mutex: name, Party: p})
					if err != nil {
						b.Fatal(err)
					}
					g.Told()
					if _, err := s.Release(b.Context(), service.ReleaseRequest{Mutex: name, Party: p}); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}
