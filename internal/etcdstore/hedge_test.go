package etcdstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// stalls has the next transaction that would write a key which contains part
// get no answer, as from a member that stopped: it happened, or it did not.
func (h *house) stalls(part string, happens bool) {
	h.gate.loses(part, func(commit commitFunc) error {
		if happens {
			if _, err := commit(); err != nil {
				h.t.Error(err)
			}
		}
		time.Sleep(3 * time.Second) // a second transaction is answered meanwhile
		return context.DeadlineExceeded
	})
}

// A member stopped with a call on its way. The call is made again at another
// one, and the caller learns what became of it, whichever of the two it was.
func TestACallThatIsNotAnsweredIsMadeAgain(t *testing.T) {
	t.Parallel()
	for name, happens := range map[string]bool{"it had happened": true, "it had not": false} {
		t.Run("acquire, "+name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.stalls("/owner", happens)
			own := h.owns(h.a, "alice")
			if again := h.owns(h.a, "alice"); again.Fence != own.Fence {
				t.Errorf("got fence %d, then %d", own.Fence, again.Fence)
			}
			h.releases(h.b, "alice")
		})
		t.Run("acquire at the third try, "+name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.gate.loses("/owner", func(commitFunc) error {
				h.stalls("/owner", happens)
				time.Sleep(4 * time.Second)
				return context.DeadlineExceeded
			})
			h.owns(h.a, "alice")
			h.releases(h.b, "alice")
		})
		t.Run("acquire for nobody, "+name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.stalls("/owner", happens)
			g, err := h.a.Acquire(t.Context(), request("alice", 0))
			if err != nil {
				t.Fatal(err)
			}
			g.Lost()
			h.eventually("it is undone", func() bool { return h.owner() == "" })
		})
		t.Run("guard, "+name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			own := h.owns(h.a, "alice")
			h.stalls("/owner", happens)
			if again, err := h.a.Guard(t.Context(), service.GuardRequest{Mutex: deploy, Party: party("alice")}); err != nil || again.Fence != own.Fence {
				t.Errorf("got %+v, %v", again, err)
			}
		})
		t.Run("release, "+name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.owns(h.a, "alice")
			bob := h.waits(h.b, "bob")
			h.stalls("/owner", happens)
			h.releases(h.a, "alice") // "released", not "already released"
			bob.own()
		})
		t.Run("join, "+name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.owns(h.b, "alice")
			h.stalls("/line/", happens)
			bob := h.waits(h.a, "bob")
			carol := h.waits(h.b, "carol")
			time.Sleep(2 * time.Second) // beyond the second transaction
			h.releases(h.b, "alice")
			bob.own()
			h.releases(h.b, "bob")
			carol.own()
		})
		t.Run("declare, "+name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.stalls("declared/", happens)
			_, created, err := h.a.Declare(t.Context(), service.DeclareRequest{
				Mutex: deploy, Settings: service.Settings{TTL: time.Second}, If: service.Precondition{Absent: true},
			})
			// It is not made again: the second would say that it is declared.
			if !errors.Is(err, service.Of(service.KindOutcomeUnknown)) {
				t.Errorf("got %v, %v; want that the outcome is not known", created, err)
			}
		})
	}
}

// While etcd fails the guards of an owner, its windows are not used up: the one
// that follows the last failure is in time.
func TestFailedGuardsCostNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	own := h.owns(h.a, "alice", 700*time.Millisecond, 0)
	h.gate.hold("/owner")
	guard := func() error {
		_, err := h.a.Guard(t.Context(), service.GuardRequest{Mutex: deploy, Party: party("alice")})
		return err
	}
	time.Sleep(300 * time.Millisecond)
	for range 2 {
		first, second := make(chan error), make(chan error)
		go func() { first <- guard() }()
		time.Sleep(200 * time.Millisecond)
		go func() { second <- guard() }()
		for _, ch := range []chan error{first, second} {
			if err := <-ch; !errors.Is(err, service.Of(service.KindOutcomeUnknown)) {
				t.Fatalf("got %v, want that the outcome is not known", err)
			}
		}
		time.Sleep(100 * time.Millisecond) // until the client is back
	}
	h.gate.heal()
	if err := guard(); err != nil {
		t.Fatal(err)
	}
	if m, err := h.b.Mutex(t.Context(), service.ReadRequest{Mutex: deploy}); err != nil || m.Owner == nil || m.Owner.Fence != own.Fence {
		t.Errorf("got %+v, %v", m.Owner, err)
	}
	// Nor do they give more than that.
	begin := time.Now()
	h.eventually("it expires", func() bool { return h.owner() == "" })
	if took := time.Since(begin); took > 3*time.Second {
		t.Errorf("expired after %v", took)
	}
}

// hold has transactions that would write a key which contains part fail after
// two seconds, until heal.
func (g *gate) hold(part string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.commit = func(keys string, commit commitFunc) (bool, error) {
		if !strings.Contains(keys, part) {
			return false, nil
		}
		g.mu.Unlock()
		defer g.mu.Lock()
		time.Sleep(2 * time.Second)
		return true, context.DeadlineExceeded
	}
}

func (g *gate) heal() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.commit = nil
}

// A replica's sign is gone for a moment, as after an outage in which leases ran
// out, while a guard with it is on its way: others let its owner live.
func TestASignThatComesBackAtOnce(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	own := h.owns(h.b, "alice", 300*time.Millisecond, 0)
	sent, arrives := make(chan struct{}), make(chan struct{})
	h.gateOfB.loses("/owner", func(commit commitFunc) error {
		close(sent)
		<-arrives
		_, err := commit()
		return errors.Join(err, context.DeadlineExceeded)
	})
	guarded := make(chan error)
	go func() {
		_, err := h.b.Guard(t.Context(), service.GuardRequest{Mutex: deploy, Party: party("alice")})
		guarded <- err
	}()
	<-sent
	time.Sleep(700 * time.Millisecond) // its windows, and the patience of others
	h.gateOfB.loses("replicas/", func(commitFunc) error {
		time.Sleep(250 * time.Millisecond) // longer than that patience
		return context.DeadlineExceeded
	})
	h.buryAlicesHome()
	h.eventually("its sign is back", func() bool { return h.signs() == 2 })
	time.Sleep(100 * time.Millisecond)
	close(arrives)
	if err := <-guarded; err != nil && !errors.Is(err, service.Of(service.KindOutcomeUnknown)) {
		t.Fatal(err)
	}
	if m, err := h.a.Mutex(t.Context(), service.ReadRequest{Mutex: deploy}); err != nil || m.Owner == nil || m.Owner.Fence != own.Fence {
		t.Errorf("got %+v, %v; want alice", m.Owner, err)
	}
}

// A replica puts its sign back as soon as it sees that it is gone.
func TestASignIsPutBackAtOnce(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.owns(h.b, "alice")
	h.eventually("both are awake", func() bool { return h.signs() == 2 })
	var times []time.Duration
	for range 5 {
		h.buryAlicesHome()
		begin := time.Now()
		h.eventually("its sign is back", func() bool { return h.signs() == 2 })
		times = append(times, time.Since(begin))
	}
	slices.Sort(times)
	if mid := times[len(times)/2]; mid > 200*time.Millisecond {
		t.Errorf("got it back after %v, want it at once, not with the next beat", times)
	}
}

// buryAlicesHome has etcd say that the replica which answers alice is dead.
func (h *house) buryAlicesHome() {
	h.t.Helper()
	resp, err := h.client.Get(h.t.Context(), h.prefix+"m/deploy/owner")
	if err != nil || len(resp.Kvs) == 0 {
		h.t.Fatalf("the owner: %v, %v", resp, err)
	}
	var rec struct{ Replica string }
	if err := json.Unmarshal(resp.Kvs[0].Value, &rec); err != nil {
		h.t.Fatal(err)
	}
	if gone, err := h.client.Delete(h.t.Context(), h.prefix+"replicas/"+rec.Replica); err != nil || gone.Deleted != 1 {
		h.t.Fatalf("the sign: %v, %v", gone, err)
	}
}

func (h *house) signs() int64 {
	resp, err := h.client.Get(h.t.Context(), h.prefix+"replicas/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		h.t.Fatal(err)
	}
	return resp.Count
}

// A replica that nobody has asked for anything ends what a dead one left behind.
func TestAnIdleReplicaEndsWhatTheDeadLeft(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.owns(h.b, "alice", 2*time.Second, 0)
	h.eventually("the other has roused", func() bool { return h.signs() == 2 })
	begin := time.Now()
	h.gateOfB.close()
	h.buryAlicesHome()
	h.eventually("it is free", func() bool {
		resp, err := h.client.Get(t.Context(), h.prefix+"m/deploy/owner")
		return err == nil && resp.Count == 0
	})
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("free after %v", took)
	}
}
