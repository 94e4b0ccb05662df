package etcdstore_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// A batch arrives in time and is refused when W is over; tried singly, each
// of its guards would do.
func TestABatchThatIsRefusedLate(t *testing.T) {
	t.Parallel()
	for i := range 10 {
		h := newHouse(t)
		h.owns(h.a, "alice", 700*time.Millisecond, 0)
		time.Sleep(400 * time.Millisecond)
		h.gate.mu.Lock()
		done := false
		h.gate.commit = func(keys string, commit commitFunc) (bool, error) {
			if done || strings.Contains(keys, "replicas/") {
				return false, nil
			}
			done = true
			h.gate.mu.Unlock()
			defer h.gate.mu.Lock()
			time.Sleep(600 * time.Millisecond)
			return true, rpctypes.ErrNoLeader
		}
		h.gate.mu.Unlock()
		res := h.a.GuardMany(t.Context(), []service.GuardRequest{{Mutex: deploy, Party: party("alice")}})
		if res[0].Err != nil {
			t.Errorf("%d: got %v; the guard arrived in time", i, res[0].Err)
			return
		}
	}
}

// A re-acquire arrives in time, and its lease is gone: tried again after W.
func TestARenewalThatIsTriedAgain(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.owns(h.a, "alice", 700*time.Millisecond, 0)
	time.Sleep(400 * time.Millisecond)
	h.gate.loses("/owner", func(commitFunc) error {
		time.Sleep(600 * time.Millisecond)
		return rpctypes.ErrLeaseNotFound
	})
	g, err := h.a.Acquire(t.Context(), request("alice", 0, 700*time.Millisecond, 0))
	if err != nil {
		t.Fatalf("got %v; it arrived in time", err)
	}
	g.Told()
}

// Of two guards that overlap the first is committed, the second fails after
// W of that.
func TestGuardsThatOverlap(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.owns(h.a, "alice", 700*time.Millisecond, 0)
	guard := func() error {
		_, err := h.a.Guard(t.Context(), service.GuardRequest{Mutex: deploy, Party: party("alice")})
		return err
	}
	first, second := make(chan error, 1), make(chan error, 1)
	entered, goOn := make(chan struct{}), make(chan struct{})
	h.gate.loses("/owner", func(commit commitFunc) error {
		close(entered)
		<-goOn
		_, err := commit() // and its answer is lost: the hedge is not in the way
		return errors.Join(err, context.DeadlineExceeded)
	})
	go func() { first <- guard() }()
	<-entered
	h.gate.hold("/owner") // the second, and all after: 2 s, then no answer
	go func() { second <- guard() }()
	time.Sleep(100 * time.Millisecond)
	close(goOn)
	for _, outcome := range []chan error{first, second} {
		if err := <-outcome; !errors.Is(err, service.Of(service.KindOutcomeUnknown)) {
			t.Fatalf("got %v, want that the outcome is not known", err)
		}
	}
	h.gate.heal()
	time.Sleep(100 * time.Millisecond)
	if err := guard(); err != nil {
		t.Errorf("the guard after the 503: %v", err)
	}
}

// One guard alone: committed, but not answered until it times out.
func TestAGuardThatIsCommittedAndNotAnswered(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.owns(h.a, "alice", 700*time.Millisecond, 0)
	guard := func() error {
		_, err := h.a.Guard(t.Context(), service.GuardRequest{Mutex: deploy, Party: party("alice")})
		return err
	}
	var once atomic.Bool
	h.gate.mu.Lock()
	h.gate.commit = func(keys string, commit commitFunc) (bool, error) {
		if !strings.Contains(keys, "/owner") {
			return false, nil
		}
		h.gate.mu.Unlock()
		defer h.gate.mu.Lock()
		if once.CompareAndSwap(false, true) {
			if _, err := commit(); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(2 * time.Second)
		return true, context.DeadlineExceeded
	}
	h.gate.mu.Unlock()
	if err := guard(); !errors.Is(err, service.Of(service.KindOutcomeUnknown)) {
		t.Fatalf("got %v, want that the outcome is not known", err)
	}
	h.gate.heal()
	if err := guard(); err != nil {
		t.Errorf("the guard after the 503: %v", err)
	}
}
