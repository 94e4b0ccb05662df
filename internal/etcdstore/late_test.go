package etcdstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// The first copy of a take is stuck in a member that stopped; the second is
// answered: bob owns. Alice is told 423. Bob releases, and only then the stuck
// copy is committed.
func TestALateCopyOfATakeIsUndone(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	heal, committed := make(chan struct{}), make(chan struct{})
	h.gate.loses("/owner", func(commit commitFunc) error {
		h.owns(h.b, "bob") // before the second copy
		go func() {
			defer close(committed)
			<-heal
			if resp, err := commit(); err != nil || !resp.Succeeded {
				t.Errorf("the stuck copy: %+v, %v", resp, err)
			}
		}()
		time.Sleep(1500 * time.Millisecond) // the second is answered meanwhile
		return context.Canceled
	})
	_, err := h.a.Acquire(t.Context(), request("alice", 0))
	if !errors.Is(err, service.Of(service.KindLocked)) {
		t.Fatalf("got %v, want locked", err)
	}
	h.releases(h.b, "bob")
	close(heal)
	<-committed
	h.eventually("the ghost is undone", func() bool { return h.owner() == "" })
}

// The same: her token is good afterwards.
func TestALateCopySpendsNoToken(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	heal, committed := make(chan struct{}), make(chan struct{})
	h.gate.loses("/owner", func(commit commitFunc) error {
		h.owns(h.b, "bob")
		go func() {
			defer close(committed)
			<-heal
			_, _ = commit()
		}()
		time.Sleep(1500 * time.Millisecond)
		return context.Canceled
	})
	_, err := h.a.Acquire(t.Context(), request("alice", 0, 300*time.Millisecond, 0))
	if !errors.Is(err, service.Of(service.KindLocked)) {
		t.Fatalf("got %v, want locked", err)
	}
	h.releases(h.b, "bob")
	close(heal)
	<-committed
	h.eventually("free", func() bool { return h.owner() == "" })
	h.owns(h.a, "alice")
}

// A new replica lists a mutex with a value it cannot read; that is taken
// away; the owner guards through it.
func TestAnOwnerBesideWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.owns(h.a, "alice")
	h.puts("m/deploy/line/zzz", `{"v":99}`)
	c := replica(t, h.client, h.prefix, policy)
	if _, err := h.client.Delete(t.Context(), h.prefix+"m/deploy/line/zzz"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if fence, err := c.Check(ctx, deploy); err != nil || fence == 0 {
		t.Errorf("check: got %v, %v; alice owns", fence, err)
	}
	if _, err := c.Guard(ctx, service.GuardRequest{Mutex: deploy, Party: party("alice")}); err != nil {
		t.Errorf("guard: %v", err)
	}
}

// Replica a is held up while bob, who waits on it, is given the mutex and
// its sign lapses: the turn passes on, the place stays, away. Then it is back,
// and bob's poll is still open.
func TestALivePollWhosePlaceWasPutBack(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	d := &deaf{Watcher: h.client.Watcher, hole: make(chan struct{})}
	gatedC, gateOfC := gated(h.client)
	gatedC.Watcher = d
	c := replica(t, gatedC, h.prefix, policy)
	h.owns(h.a, "alice")
	bob := h.waits(c, "bob", 300*time.Millisecond, 0)
	gateOfC.close() // c is cut off from etcd
	d.swallow()
	h.releases(h.a, "alice")
	h.buryAlicesHome() // bob's, which is c: its lease lapsed
	h.eventually("the turn has passed on", func() bool { return h.owner() == "" })
	gateOfC.mu.Lock()
	gateOfC.shut = false
	gateOfC.mu.Unlock()
	h.eventually("c is back", func() bool { return h.signs() == 3 && c.Ready(t.Context()) == nil })
	begin := time.Now()
	select {
	case <-bob.done:
		t.Logf("bob has %v, %v after %v", bob.grant, bob.err, time.Since(begin))
	case <-time.After(4 * time.Second):
		t.Errorf("4 s later bob's poll is still open, the mutex is idle (owner %q), and he is present: %v", h.owner(), h.present("bob"))
		<-bob.done
		t.Logf("bob has it after %v (%v)", time.Since(begin), bob.err)
	}
	if bob.grant != nil {
		bob.grant.Told()
	}
}
