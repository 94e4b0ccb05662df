package etcdstore_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-lock/holdfast/internal/etcdstore"
	"github.com/holdfast-lock/holdfast/internal/service"
)

// Each test is an interleaving that a clause of a transaction closes: what
// happens in the callback comes between the decision and its commit.

// Nobody waits when a release is decided on; bob joins before it is committed.
// Freed all the same, the mutex would be idle and bob would wait for ever.
func TestReleaseSeesWhoJoinsInThatMoment(t *testing.T) {
	h := newHouse(t)
	h.owns(h.a, "alice")
	c := h.counts()
	var bob *waiter
	h.gate.once("/owner", func() { bob = h.waits(h.b, "bob") })
	h.releases(h.a, "alice")
	bob.own()
	c.wrote("joining, and releasing to him", 2)
}

// Alice owns when bob decides to join; she releases, to nobody, before it is
// committed. He would be in line for what nobody owns.
func TestJoinSeesThatNobodyOwnsAnyMore(t *testing.T) {
	h := newHouse(t)
	h.owns(h.b, "alice")
	c := h.counts()
	h.gate.once("/line/", func() { h.releases(h.b, "alice") })
	h.polls(h.a, "bob").own()
	c.wrote("releasing, and taking", 2)
}

// A guard is on its way when its owner releases: it must not revive what is
// somebody else's, or nobody's.
func TestGuardGivesWayToARelease(t *testing.T) {
	h := newHouse(t)
	h.owns(h.a, "alice")
	h.gate.once("/owner", func() {
		h.releases(h.b, "alice")
		h.owns(h.b, "bob")
	})
	_, err := h.a.Guard(t.Context(), service.GuardRequest{Mutex: deploy, Party: party("alice")})
	if e := (*service.Error)(nil); !errors.As(err, &e) || e.Kind != service.KindNotOwner || e.Ended != service.EndedReleased {
		t.Errorf("got %v, want that she is not the owner, for it was released", err)
	}
	if got := h.owner(); got != "bob" {
		t.Errorf("got owner %q, want bob", got)
	}
}

// A mutex is idle, and a waiter of a third replica is present before alice
// takes it: whoever it is that should have promoted him, she does not barge.
func TestTakeDoesNotBarge(t *testing.T) {
	h := newHouse(t)
	h.gate.once("/owner", func() {
		h.puts("replicas/third", `{"v":1,"at":"2026-01-01T00:00:00Z"}`)
		h.puts("m/deploy/line/"+string(party("bob").Pair), `{"v":1,"contender_id":"bob","joined_at":"2026-01-01T00:00:00Z",`+
			`"present":true,"poll":"p","replica":"third"}`)
	})
	_, err := h.a.Acquire(t.Context(), request("alice", 0))
	if !errors.Is(err, service.Of(service.KindLocked)) {
		t.Errorf("got %v, want that it is locked", err)
	}
	h.eventually("another replica promotes bob", func() bool { return h.owner() == "bob" })
}

func (h *house) puts(key, value string) {
	h.t.Helper()
	if _, err := h.client.Put(h.t.Context(), h.prefix+key, value); err != nil {
		h.t.Fatal(err)
	}
}

// The windows are over when an expiry is decided on; a guard through another
// replica is committed before it. Ended all the same, an owner that was told
// "guarded" would have lost what it guards.
func TestExpiryGivesWayToAGuard(t *testing.T) {
	h := newHouse(t)
	h.owns(h.a, "alice", 300*time.Millisecond, 0)
	expiring := make(chan struct{})
	h.gate.once("settled/", func() {
		if _, err := h.b.Guard(t.Context(), service.GuardRequest{Mutex: deploy, Party: party("alice")}); err != nil {
			t.Errorf("guard: %v", err)
		}
		close(expiring)
	})
	<-expiring
	fence := h.owner()
	if fence != "alice" {
		t.Errorf("got owner %q after the guard, want alice", fence)
	}
	h.eventually("it expires through its new home", func() bool { return h.owner() == "" })
}

// The line is as long as is declared, but the replica of the one who waits seems
// to be dead, until just before bob would join.
func TestJoinSeesThatAWaiterIsPresentAfterAll(t *testing.T) {
	h := newHouse(t)
	if _, _, err := h.a.Declare(t.Context(), service.DeclareRequest{
		Mutex: deploy, Settings: service.Settings{TTL: time.Minute, MaxWaiters: 1},
	}); err != nil {
		t.Fatal(err)
	}
	h.owns(h.a, "alice")
	h.puts("m/deploy/line/third", `{"v":1,"contender_id":"carol","joined_at":"2026-01-01T00:00:00Z",`+
		`"present":true,"poll":"p","replica":"third"}`)
	if _, err := h.a.Waiters(t.Context(), deploy); err != nil { // so that a knows it
		t.Fatal(err)
	}
	h.gate.once("/line/", func() { h.puts("replicas/third", `{"v":1,"at":"2026-01-01T00:00:00Z"}`) })
	bob := h.polls(h.a, "bob")
	bob.ends()
	if !errors.Is(bob.err, service.Of(service.KindTooManyWaiters)) {
		t.Errorf("got %v, want that there are too many", bob.err)
	}
}

// Bob is the head when a release is decided on; before it is committed he polls
// again. The grant must name the newer poll: the older one answers nobody.
func TestHandOverNamesTheNewestPoll(t *testing.T) {
	h := newHouse(t)
	h.owns(h.a, "alice")
	older := h.waits(h.b, "bob")
	var newer *waiter
	h.gate.once("/owner", func() {
		newer = h.polls(h.b, "bob")
		older.ends()
	})
	h.releases(h.a, "alice")
	if !errors.Is(older.err, service.Of(service.KindSuperseded)) {
		t.Errorf("got %v for the older poll, want superseded", older.err)
	}
	newer.own()
}

// Bob is away and carol is the head when a release is decided on; bob is back
// before it is committed, and he joined first.
func TestHandOverSeesWhoComesBackInThatMoment(t *testing.T) {
	h := newHouse(t)
	h.owns(h.a, "alice")
	first := h.waits(h.b, "bob")
	h.waits(h.b, "carol")
	first.cancel()
	first.ends()
	if _, err := h.a.Waiters(t.Context(), deploy); err != nil { // so that a knows it
		t.Fatal(err)
	}
	var bob *waiter
	h.gate.once("/owner", func() { bob = h.waits(h.b, "bob") })
	h.releases(h.a, "alice")
	bob.own()
}

// The head's replica dies between the decision and the commit: nobody would
// answer the grant.
func TestHandOverSkipsTheDead(t *testing.T) {
	h := newHouse(t)
	h.owns(h.a, "alice")
	h.waits(h.b, "bob")
	carol := h.waits(h.a, "carol")
	h.gate.once("/owner", func() { h.killB() })
	h.releases(h.a, "alice")
	carol.own()
}

// killB has etcd say that the second replica is dead, which it is from then on.
func (h *house) killB() {
	h.t.Helper()
	h.gateOfB.close()
	h.buryB()
}

// buryB has etcd say that the second replica is dead, although it lives.
func (h *house) buryB() {
	h.t.Helper()
	resp, err := h.client.Get(h.t.Context(), h.prefix+"replicas/", clientv3.WithPrefix())
	if err != nil {
		h.t.Fatal(err)
	}
	line, err := h.client.Get(h.t.Context(), h.prefix+"m/deploy/line/"+string(party("bob").Pair))
	if err != nil {
		h.t.Fatal(err)
	}
	for _, kv := range resp.Kvs {
		id := string(kv.Key[len(h.prefix+"replicas/"):])
		if !bytes.Contains(line.Kvs[0].Value, []byte(id)) {
			continue
		}
		if _, err := h.client.Delete(h.t.Context(), string(kv.Key)); err != nil {
			h.t.Fatal(err)
		}
	}
}

// An idle mutex is about to be taken by alice, who does not wait; before that
// is committed bob owns it, carol joins, and bob releases to nobody's
// knowledge: carol owns. Then alice is refused.
func TestTakeSeesTheLine(t *testing.T) {
	h := newHouse(t)
	var carol *waiter
	h.gate.once("/owner", func() {
		h.owns(h.b, "bob")
		carol = h.waits(h.b, "carol")
		h.releases(h.b, "bob")
	})
	_, err := h.a.Acquire(t.Context(), request("alice", 0))
	if !errors.Is(err, service.Of(service.KindLocked)) {
		t.Errorf("got %v, want that it is locked", err)
	}
	carol.own()
}

// A request is granted and its client is gone; before the grant is undone the
// party acquires again through the other replica. That stands.
func TestPassingOnGivesWayToANewerAcquire(t *testing.T) {
	h := newHouse(t)
	g, err := h.a.Acquire(t.Context(), request("alice", 0))
	if err != nil {
		t.Fatal(err)
	}
	undoing := make(chan service.Ownership)
	h.gate.once("/owner", func() { undoing <- h.owns(h.b, "alice") })
	g.Lost()
	again := <-undoing
	if again.Fence != g.Ownership().Fence {
		t.Errorf("got fence %d, want %d: it is the same ownership", again.Fence, g.Ownership().Fence)
	}
	if _, err := h.a.Guard(t.Context(), service.GuardRequest{Mutex: deploy, Party: party("alice")}); err != nil {
		t.Errorf("guard: %v", err)
	}
}

// Bob's turn comes while his client is gone: the turn passes to carol, and
// bob's place is before dave's when he polls again.
func TestPassingOnKeepsThePlace(t *testing.T) {
	h := newHouse(t)
	h.owns(h.a, "alice")
	bob := h.waits(h.b, "bob")
	carol := h.waits(h.b, "carol")
	dave := h.waits(h.b, "dave")
	h.releases(h.a, "alice")
	bob.ends()
	if bob.err != nil {
		t.Fatal(bob.err)
	}
	bob.grant.Lost()
	carol.own()
	again := h.waits(h.a, "bob")
	h.releases(h.b, "carol")
	again.own()
	h.releases(h.a, "bob")
	dave.own()
}

// An acquire is committed, and its answer lost. The reply says so; nobody was
// told, so it is undone; and the same call gets the mutex.
func TestAnOutcomeThatIsNotKnownIsUndone(t *testing.T) {
	h := newHouse(t)
	h.gate.loses("/owner", func(commit commitFunc) error {
		if _, err := commit(); err != nil {
			t.Error(err)
		}
		return context.DeadlineExceeded
	})
	_, err := h.a.Acquire(t.Context(), request("alice", 0))
	if !errors.Is(err, service.Of(service.KindOutcomeUnknown)) {
		t.Fatalf("got %v, want that the outcome is not known", err)
	}
	h.eventually("it is undone", func() bool { return h.owner() == "" })
	h.owns(h.a, "alice")
}

// An owner acquires again, that is renews, and the answer is lost: at its home,
// or at another replica. What it was told of before stays.
func TestARenewalThatIsNotKnownIsNotUndone(t *testing.T) {
	for name, first := range map[string]func(h *house) *etcdstore.Store{
		"at its home":     func(h *house) *etcdstore.Store { return h.a },
		"at another home": func(h *house) *etcdstore.Store { return h.b },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			own := h.owns(first(h), "alice")
			h.gate.loses("/owner", func(commit commitFunc) error {
				if resp, err := commit(); err != nil || !resp.Succeeded {
					t.Errorf("got %+v, %v", resp, err)
				}
				return context.DeadlineExceeded
			})
			if _, err := h.a.Acquire(t.Context(), request("alice", 0)); !errors.Is(err, service.Of(service.KindOutcomeUnknown)) {
				t.Fatalf("got %v, want that the outcome is not known", err)
			}
			time.Sleep(300 * time.Millisecond) // in which it would be undone
			if again := h.owns(h.a, "alice"); again.Fence != own.Fence {
				t.Errorf("got fence %d, want %d as before", again.Fence, own.Fence)
			}
		})
	}
}

// The same, but the proposal is committed only seconds after the call gave up,
// as when a partition heals.
func TestACommitThatComesLateIsUndone(t *testing.T) {
	h := newHouse(t)
	heal, committed := make(chan struct{}), make(chan struct{})
	h.gate.loses("/owner", func(commit commitFunc) error {
		go func() {
			defer close(committed)
			<-heal
			if resp, err := commit(); err != nil || !resp.Succeeded {
				t.Errorf("the late commit: %v, %v", resp, err)
			}
		}()
		return context.DeadlineExceeded
	})
	_, err := h.a.Acquire(t.Context(), request("alice", 0))
	if !errors.Is(err, service.Of(service.KindOutcomeUnknown)) {
		t.Fatalf("got %v, want that the outcome is not known", err)
	}
	close(heal)
	<-committed
	h.eventually("it is undone", func() bool { return h.owner() == "" })
}

// A join is committed, and its answer lost: nobody is present for it.
func TestAPlaceThatNobodyWasToldOfIsVacated(t *testing.T) {
	h := newHouse(t)
	h.owns(h.b, "alice")
	h.gate.loses("/line/", func(commit commitFunc) error {
		_, _ = commit()
		return context.DeadlineExceeded
	})
	_, err := h.a.Acquire(t.Context(), request("bob", time.Minute))
	if !errors.Is(err, service.Of(service.KindOutcomeUnknown)) {
		t.Fatalf("got %v, want that the outcome is not known", err)
	}
	h.eventually("nobody is present", func() bool { return !h.present("bob") })
	h.releases(h.b, "alice")
	h.owns(h.b, "carol")
}
