package etcdstore_test

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-lock/holdfast/internal/etcdstore"
	"github.com/holdfast-lock/holdfast/internal/service"
)

// revoke ends the lease that a key hangs on, as etcd does when it expires.
func (h *house) revoke(key string) {
	h.t.Helper()
	resp, err := h.client.Get(h.t.Context(), h.prefix+key)
	if err != nil || len(resp.Kvs) == 0 {
		h.t.Fatalf("key %q: %v, %v", key, resp, err)
	}
	if _, err := h.client.Revoke(h.t.Context(), clientv3.LeaseID(resp.Kvs[0].Lease)); err != nil {
		h.t.Fatal(err)
	}
}

// The lease under the places of a replica dies while their polls are open. Who
// waits is put back in the old order, and told nothing of it.
func TestPlacesOutliveTheirLease(t *testing.T) {
	h := newHouse(t)
	h.owns(h.a, "alice")
	bob := h.waits(h.b, "bob")
	carol := h.waits(h.b, "carol")
	h.revoke("m/deploy/line/" + string(party("bob").Pair))
	h.eventually("both are back", func() bool { return h.present("bob") && h.present("carol") })
	line, err := h.a.Waiters(t.Context(), deploy)
	if err != nil || line[0].Contender != "bob" || line[1].Contender != "carol" {
		t.Fatalf("got line %+v, %v; want bob, carol", line, err)
	}
	h.releases(h.a, "alice")
	if left := bob.own().TTLRemaining; left < 9*time.Second {
		t.Errorf("got %v of the ttl left at the grant, want all of 10s", left)
	}
	h.releases(h.b, "bob")
	carol.own()
}

// The lease that a waiter brought for its ownership is gone when its turn comes.
func TestHandOverWithoutTheWaitersLease(t *testing.T) {
	h := newHouse(t)
	first := h.owns(h.b, "first") // so that the pool of b has a key to find its lease by
	h.releases(h.b, "first")
	h.owns(h.b, "alice")
	bob := h.waits(h.b, "bob")
	resp, err := h.client.Get(t.Context(), h.prefix+"m/deploy/owner")
	if err != nil {
		t.Fatal(err)
	}
	lease := resp.Kvs[0].Lease
	// Alice's key moves to a's lease, so that it survives b's.
	if _, err := h.a.Guard(t.Context(), service.GuardRequest{Mutex: deploy, Party: party("alice")}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.client.Revoke(t.Context(), clientv3.LeaseID(lease)); err != nil {
		t.Fatal(err)
	}
	h.releases(h.a, "alice")
	if own := bob.own(); own.Fence <= first.Fence {
		t.Errorf("got fence %d after %d", own.Fence, first.Fence)
	}
	if _, err := h.b.Guard(t.Context(), service.GuardRequest{Mutex: deploy, Party: party("bob")}); err != nil {
		t.Errorf("guard: %v", err)
	}
}

// No replica was left to keep the safety net alive: the ownership is gone, its
// owner is told so, and the line goes on.
func TestTheSafetyNet(t *testing.T) {
	h := newHouse(t)
	first := h.owns(h.a, "alice")
	bob := h.waits(h.b, "bob")
	h.revoke("m/deploy/owner")
	if own := bob.own(); own.Fence <= first.Fence {
		t.Errorf("got fence %d after %d", own.Fence, first.Fence)
	}
	_, err := h.a.Guard(t.Context(), service.GuardRequest{Mutex: deploy, Party: party("alice")})
	if e := (*service.Error)(nil); !errors.As(err, &e) || e.Kind != service.KindNotOwner || e.Ended != service.EndedUnknown {
		t.Errorf("got %v, want that she is not the owner, and nobody knows why", err)
	}
	h.releases(h.b, "bob")
	h.owns(h.a, "alice") // a's leases are new
}

// A replica's key lapsed although it lives: its waiters count again as soon as
// it says so, and its idle mutexes are promoted.
func TestAReplicaComesBack(t *testing.T) {
	h := newHouse(t)
	h.owns(h.a, "alice")
	bob := h.waits(h.b, "bob")
	h.buryB()
	h.releases(h.a, "alice")
	bob.own()
}

// A turn came to a poll whose replica is dead. It cannot have been guarded, so
// when W is over the turn passes on, and the place and the token stay.
func TestATurnThatADeadReplicaWasGiven(t *testing.T) {
	h := newHouse(t)
	h.owns(h.a, "alice")
	h.puts("replicas/third", `{"v":1,"at":"2026-01-01T00:00:00Z"}`)
	h.puts("m/deploy/line/"+string(party("bob").Pair), `{"v":1,"contender_id":"bob","joined_at":"2026-01-01T00:00:00Z",`+
		`"present":true,"poll":"p","replica":"third","asked_ttl_ms":300,"asked_transition_ms":0}`)
	carol := h.waits(h.a, "carol")
	h.releases(h.a, "alice")
	if got := h.owner(); got != "bob" {
		t.Fatalf("got owner %q, want bob", got)
	}
	if _, err := h.client.Delete(t.Context(), h.prefix+"replicas/third"); err != nil {
		t.Fatal(err)
	}
	carol.own()
	bob := h.waits(h.b, "bob")
	h.releases(h.a, "carol")
	bob.own()
}

// The replica that ran inside this etcd before is dead, whatever its lease says.
func TestPredecessorsAreBuried(t *testing.T) {
	h := newHouse(t)
	h.puts("replicas/before", `{"v":1,"at":"2026-01-01T00:00:00Z","embedded":true}`)
	h.puts("replicas/other", `{"v":1,"at":"2026-01-01T00:00:00Z"}`)
	s := etcdstore.New(etcdstore.Config{
		Client: h.client, Prefix: h.prefix, Timeout: 5 * time.Second, Policy: policy,
		Log: slog.New(slog.DiscardHandler), Embedded: true,
	})
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]int64{"replicas/before": 0, "replicas/other": 1} {
		if resp, err := h.client.Get(t.Context(), h.prefix+key); err != nil || resp.Count != want {
			t.Errorf("%s: got %v, %v; want %d", key, resp, err, want)
		}
	}
}

// An event id of data that was wiped since is answered with the present state.
func TestEventsFromTheFuture(t *testing.T) {
	h := newHouse(t)
	h.owns(h.a, "alice")
	for ev, err := range h.a.Events(t.Context(), deploy, &service.EventID{Revision: 1 << 50}) {
		if err != nil || ev.Type != service.EventReset || ev.State.Owner == nil {
			t.Errorf("got %+v, %v; want a reset", ev, err)
		}
		return
	}
}
