package etcdstore_test

import (
	"context"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-lock/holdfast/internal/etcdstore"
	"github.com/holdfast-lock/holdfast/internal/service"
)

// deaf is a watcher whose open watches can be made to say nothing more,
// without an error: what a black hole on the way looks like.
type deaf struct {
	clientv3.Watcher
	mu   sync.Mutex
	hole chan struct{} // closed: what is open is silent; guarded by mu
	open int           // guarded by mu
}

func (d *deaf) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	in, out := d.Watcher.Watch(ctx, key, opts...), make(chan clientv3.WatchResponse)
	d.mu.Lock()
	hole := d.hole
	d.open++
	d.mu.Unlock()
	go func() {
		defer close(out)
		for resp := range in {
			select {
			case <-hole:
				<-ctx.Done()
				return
			default:
			}
			select {
			case out <- resp:
			case <-ctx.Done():
			}
		}
	}()
	return out
}

func (d *deaf) swallow() (opened int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.hole)
	d.hole = make(chan struct{})
	return d.open
}

func (d *deaf) opened() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.open
}

// The watch of a replica falls silent. Within a few seconds it is opened again,
// and who was granted in between is told; meanwhile nothing rests on what the
// replica believes: a refusal still reads.
func TestAWatchThatFallsSilent(t *testing.T) {
	h := newHouse(t)
	d := &deaf{Watcher: h.client.Watcher, hole: make(chan struct{})}
	client := clientv3.NewCtxClient(context.Background())
	client.KV, client.Lease, client.Watcher = h.client.KV, h.client.Lease, d
	c := replica(t, client, h.prefix, policy)

	h.owns(h.a, "alice")
	bob := h.waits(c, "bob")
	before := d.swallow()
	h.releases(h.a, "alice")
	at := time.Now()
	if fence, err := c.Check(t.Context(), deploy); err != nil || h.owner() != "bob" || fence == 0 {
		t.Errorf("got fence %d, %v from the deaf replica", fence, err)
	}
	bob.own()
	if took := time.Since(at); took > 5*time.Second {
		t.Errorf("bob was told after %v", took)
	}
	h.eventually("the watch is open again", func() bool { return d.opened() > before })
	h.eventually("the replica is ready", func() bool { return c.Ready(t.Context()) == nil })
}

// A view that is behind grants nothing: what it shows may be over.
func TestAnOldViewTellsNobodyThatItOwns(t *testing.T) {
	h := newHouse(t)
	d := &deaf{Watcher: h.client.Watcher, hole: make(chan struct{})}
	client := clientv3.NewCtxClient(context.Background())
	client.KV, client.Lease, client.Watcher = h.client.KV, h.client.Lease, d
	c := replica(t, client, h.prefix, policy)

	h.owns(c, "alice")
	d.swallow()
	h.releases(h.a, "alice") // the deaf replica believes that she still owns
	g, err := c.Acquire(t.Context(), request("bob", 0))
	if err != nil {
		t.Fatalf("bob acquires what is idle: %v", err)
	}
	g.Told()
	if _, err := c.Guard(t.Context(), service.GuardRequest{Mutex: deploy, Party: party("alice")}); err == nil {
		t.Error("alice guards what she released")
	}
}

var _ service.Store = (*etcdstore.Store)(nil)
