package etcdstore_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-lock/holdfast/internal/etcdstore"
	"github.com/holdfast-lock/holdfast/internal/service"
)

// A break that was sent twice.
func TestABreakThatIsSentTwiceIsAudited(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	var told atomic.Int64
	gatedC, gateOfC := gated(h.client)
	c := etcdstore.New(etcdstore.Config{
		Client: gatedC, Prefix: h.prefix, Timeout: 5 * time.Second, Policy: policy, Log: slog.New(auditor{slog.DiscardHandler, &told}),
	})
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Stop(context.Background()) }()
	own := h.owns(h.a, "alice")
	gateOfC.loses("/owner", func(commit commitFunc) error {
		_, _ = commit()
		time.Sleep(1500 * time.Millisecond)
		return context.Canceled
	})
	past, err := c.Break(t.Context(), service.BreakRequest{Mutex: deploy, Fence: own.Fence, Reason: "stuck"})
	if err != nil {
		t.Fatal(err)
	}
	if told.Load() != 1 {
		t.Errorf("got %d lines in the audit log of %+v, want 1", told.Load(), past)
	}
}

type auditor struct {
	slog.Handler
	n *atomic.Int64
}

func (c auditor) Enabled(context.Context, slog.Level) bool { return true }
func (c auditor) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "lock broken" {
		c.n.Add(1)
	}
	return nil
}

// A replica that can read and not write is roused again and again.
func TestAReplicaThatCannotWriteIsRousedOnce(t *testing.T) {
	h := newHouse(t)
	h.gate.close()
	h.owns(h.b, "alice")
	h.releases(h.b, "alice")
	time.Sleep(300 * time.Millisecond)
	before := runtime.NumGoroutine()
	for i := range 200 {
		who := fmt.Sprint("alice", i)
		h.owns(h.b, who)
		h.releases(h.b, who)
	}
	time.Sleep(time.Second)
	if n := runtime.NumGoroutine() - before; n > 20 {
		t.Errorf("%d goroutines more", n)
	}
}

// Etcd is out of space while a replica starts: it serves what can be read, and
// says by itself that it is alive once that can be written.
func TestAStartThatCannotWrite(t *testing.T) {
	h := newHouse(t)
	fence := h.owns(h.b, "alice").Fence
	ofC, gateOfC := gated(h.client)
	gateOfC.loses("/replicas/", func(commitFunc) error { return rpctypes.ErrNoSpace })
	signs := func() int64 {
		resp, err := h.client.Get(t.Context(), h.prefix+"replicas/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil {
			t.Fatal(err)
		}
		return resp.Count
	}
	before := signs()
	c := replica(t, ofC, h.prefix, policy)
	if got, err := c.Check(t.Context(), deploy); err != nil || got != fence {
		t.Errorf("got fencing token %d, %v; want %d", got, err, fence)
	}
	h.eventually("the replica says that it is alive", func() bool { return signs() > before })
}

// Removed while bob waits, and his place is not written away at once.
func TestWhoIsTurnedAwayLeavesNoPlace(t *testing.T) {
	t.Parallel()
	h := &house{t: t, client: etcd(t), prefix: "/t/"}
	deny := policy
	deny.DenyUndeclared = true
	ofA, g := gated(h.client)
	h.gate = g
	h.a, h.b = replica(t, ofA, h.prefix, deny), replica(t, h.client, h.prefix, deny)
	declare := func() {
		if _, _, err := h.b.Declare(t.Context(), service.DeclareRequest{Mutex: deploy, Settings: service.Settings{TTL: time.Minute}}); err != nil {
			t.Fatal(err)
		}
	}
	declare()
	h.owns(h.b, "alice")
	bob := h.waits(h.a, "bob")
	h.gate.loses("/line/", func(commitFunc) error { return rpctypes.ErrLeaseNotFound })
	if err := h.b.Remove(t.Context(), service.RemoveRequest{Mutex: deploy, Force: true}); err != nil {
		t.Fatal(err)
	}
	bob.ends()
	if !errors.Is(bob.err, service.Of(service.KindMutexNotDeclared)) {
		t.Errorf("got %v, want that it is not declared", bob.err)
	}
	time.Sleep(500 * time.Millisecond)
	declare()
	time.Sleep(500 * time.Millisecond)
	if got := h.owner(); got != "" {
		t.Errorf("%s owns, and was told %v", got, bob.err)
	}
}
