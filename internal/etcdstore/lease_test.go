package etcdstore_test

import (
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

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
	h.killB()
	h.releases(h.a, "alice")
	bob.own()
}
