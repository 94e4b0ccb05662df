package etcdstore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// counter counts the transactions that write: the revisions that a watch
// shows. Heartbeats are left out.
type counter struct {
	t       *testing.T
	client  *clientv3.Client
	prefix  string
	changes clientv3.WatchChan
	seen    map[int64]bool
}

func (h *house) counts() *counter {
	h.t.Helper()
	ctx, cancel := context.WithCancel(h.t.Context())
	h.t.Cleanup(cancel)
	c := &counter{
		t: h.t, client: h.client, prefix: h.prefix, seen: map[int64]bool{},
		changes: h.client.Watch(ctx, h.prefix, clientv3.WithPrefix(), clientv3.WithCreatedNotify()),
	}
	<-c.changes
	return c
}

// wrote waits for the watch to have shown all until now, and compares.
func (c *counter) wrote(what string, want int) {
	c.t.Helper()
	mark, err := c.client.Put(c.t.Context(), c.prefix+"mark", "")
	if err != nil {
		c.t.Fatal(err)
	}
	for resp := range c.changes {
		for _, ev := range resp.Events {
			if ev.Kv.ModRevision == mark.Header.Revision {
				if got := len(c.seen); got != want {
					c.t.Errorf("%s: got %d writes, want %d", what, got, want)
				}
				c.seen = map[int64]bool{}
				return
			}
			if !strings.HasPrefix(string(ev.Kv.Key), c.prefix+"replicas/") {
				c.seen[ev.Kv.ModRevision] = true
			}
		}
	}
}

func TestWrites(t *testing.T) {
	h := newHouse(t)
	c := h.counts()
	guard := service.GuardRequest{Mutex: deploy, Party: party("alice")}

	h.owns(h.a, "alice")
	c.wrote("acquire", 1)
	if _, err := h.a.Guard(t.Context(), guard); err != nil {
		t.Fatal(err)
	}
	c.wrote("guard", 1)
	h.owns(h.a, "alice")
	c.wrote("acquire again", 1)
	h.releases(h.a, "alice")
	c.wrote("release", 1)

	h.owns(h.a, "zoe")
	c.wrote("acquire", 1)
	bob := h.waits(h.b, "bob")
	c.wrote("join", 1)
	h.releases(h.a, "zoe")
	bob.own()
	c.wrote("release and hand-over", 1)
	carol := h.waits(h.a, "carol")
	c.wrote("join", 1)
	carol.cancel()
	carol.ends()
	c.wrote("going away", 1)
	if out, err := h.a.Release(t.Context(), service.ReleaseRequest{Mutex: deploy, Party: party("carol")}); err != nil || out != service.LeftLine {
		t.Fatalf("got %v, %v", out, err)
	}
	c.wrote("leave", 1)
	if _, err := h.a.Acquire(t.Context(), request("dave", 0)); err == nil {
		t.Fatal("dave got what bob owns")
	}
	c.wrote("refusal", 0)
	h.releases(h.b, "bob")
	c.wrote("release", 1)

	h.owns(h.a, "erin", 200*time.Millisecond, 0)
	frank := h.waits(h.b, "frank")
	c.wrote("acquire and join", 2)
	frank.own()
	c.wrote("expiry and hand-over", 1)
}

func TestWritesOfABatch(t *testing.T) {
	h := newHouse(t)
	var reqs []service.GuardRequest
	for i := range 250 {
		name := service.Name(fmt.Sprintf("m%d", i))
		g, err := h.a.Acquire(t.Context(), service.AcquireRequest{Mutex: name, Party: party("alice")})
		if err != nil {
			t.Fatal(err)
		}
		g.Told()
		reqs = append(reqs, service.GuardRequest{Mutex: name, Party: party("alice")})
	}
	// The same again, somebody else's, and nobody's cost nothing more.
	reqs = append(reqs, reqs[7], service.GuardRequest{Mutex: "m7", Party: party("bob")}, service.GuardRequest{Mutex: "idle", Party: party("bob")})
	c := h.counts()
	results := h.a.GuardMany(t.Context(), reqs)
	c.wrote("250 guards", 3)
	for i, r := range results {
		own := i < 251
		if own != (r.Err == nil) {
			t.Errorf("guard %d of %q: got %v", i, reqs[i].Mutex, r.Err)
		}
		if own && r.Ownership.TTLRemaining != 10*time.Second {
			t.Errorf("guard %d: got %v left, want 10s", i, r.Ownership.TTLRemaining)
		}
	}
}
