package servicetest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-lock/holdfast/internal/service"
	"github.com/holdfast-lock/holdfast/internal/service/servicetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, policy service.Policy) service.Store {
	m := servicetest.NewMemory(policy)
	t.Cleanup(m.Close)
	return m
}

func TestMemory(t *testing.T) {
	servicetest.TestStore(t, open, servicetest.InBubbles())
}

// It is what a store with a network goes through, so it has to work.
func TestMemoryInRealTime(t *testing.T) {
	if testing.Short() {
		t.Skip("takes twenty seconds")
	}
	servicetest.TestStore(t, open, servicetest.InParallel())
}

var policy = service.Policy{DefaultTTL: 10 * time.Second, DefaultTransition: 6 * time.Second}

func acquire(t *testing.T, m *servicetest.Memory, who string) service.Grant {
	t.Helper()
	g, err := m.Acquire(t.Context(), service.AcquireRequest{Mutex: "deploy", Party: party(who)})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func party(who string) service.Party {
	return service.NewParty(service.ContenderID(who), "0123456789abcdef")
}

func TestMemoryCloseEndsWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := servicetest.NewMemory(policy)
		grant := acquire(t, m, "alice")
		time.AfterFunc(time.Second, m.Close)
		unavailable := func(err error) {
			t.Helper()
			if !errors.Is(err, service.Of(service.KindUnavailable)) {
				t.Errorf("got error %v, want unavailable", err)
			}
		}
		_, err := m.Acquire(t.Context(), service.AcquireRequest{Mutex: "deploy", Party: party("bob"), Wait: time.Hour})
		unavailable(err)
		after := service.Revision(0)
		_, err = m.Mutex(t.Context(), service.ReadRequest{Mutex: "unused", After: &after, Wait: time.Hour})
		unavailable(err)
		unavailable(m.Ready(t.Context()))
		grant.Told()
		grant.Lost()
		m.Close()
	})
}

func TestMemoryResetsReadersOfWhatWasCompacted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := servicetest.NewMemory(policy)
		defer m.Close()
		held := acquire(t, m, "alice").Ownership()
		seen := service.EventID{Revision: service.Revision(held.Fence) - 1}
		if ev := firstEvent(t, m, seen); ev.Type != service.EventAcquired {
			t.Errorf("got %+v, want what was acquired", ev)
		}
		m.Compact()
		reset := firstEvent(t, m, seen)
		if reset.Type != service.EventReset || reset.State == nil || reset.State.Owner == nil || reset.ID == nil {
			t.Fatalf("got %+v, want a reset with the state", reset)
		}
		if ev := firstEvent(t, m, service.EventID{Revision: reset.ID.Revision + 1000}); ev.Type != service.EventReset {
			t.Errorf("got %+v from the future, want a reset", ev)
		}
		time.AfterFunc(time.Second, func() {
			if _, err := m.Guard(context.Background(), service.GuardRequest{Mutex: "deploy", Party: party("alice")}); err != nil {
				t.Error(err)
			}
		})
		if ev := firstEvent(t, m, *reset.ID); ev.Type != service.EventGuarded {
			t.Errorf("got %+v after the reset, want the guard", ev)
		}
	})
}

func firstEvent(t *testing.T, m *servicetest.Memory, after service.EventID) service.Event {
	t.Helper()
	for ev, err := range m.Events(t.Context(), "deploy", &after) {
		if err != nil {
			t.Fatal(err)
		}
		return ev
	}
	t.Fatal("got no event, want one")
	return service.Event{}
}

// The first client was not told, and neither was the one that asked again: in
// one process that can be known, and then nothing stays owned.
func TestMemoryUndoesARepeatedGrantThatNobodyWasToldOf(t *testing.T) {
	m := servicetest.NewMemory(policy)
	defer m.Close()
	first, second := acquire(t, m, "alice"), acquire(t, m, "alice")
	second.Lost()
	first.Lost()
	if got, err := m.Check(t.Context(), "deploy"); err != nil || got != 0 {
		t.Errorf("got fence %d, %v; want none", got, err)
	}
}

func TestMemoryEndsWaitsForWhatIsNoLongerDeclared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deny := policy
		deny.DenyUndeclared = true
		m := servicetest.NewMemory(deny)
		defer m.Close()
		if _, _, err := m.Declare(t.Context(), service.DeclareRequest{Mutex: "deploy", Settings: service.Settings{TTL: time.Minute}}); err != nil {
			t.Fatal(err)
		}
		acquire(t, m, "alice").Told()
		time.AfterFunc(time.Second, func() {
			if err := m.Remove(context.Background(), service.RemoveRequest{Mutex: "deploy", Force: true}); err != nil {
				t.Error(err)
			}
		})
		_, err := m.Acquire(t.Context(), service.AcquireRequest{Mutex: "deploy", Party: party("bob"), Wait: time.Hour})
		if !errors.Is(err, service.Of(service.KindMutexNotDeclared)) {
			t.Errorf("got error %v, want that it is not declared", err)
		}
	})
}
