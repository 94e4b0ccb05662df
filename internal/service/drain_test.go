package service_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// inBubble runs f in a synctest bubble, with a service that alice's mutex
// "deploy" is kept in.
func inBubble(t *testing.T, f func(t *testing.T, s *service.Service, alice service.Party)) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		f(t, s, owns(t, s, "alice"))
	})
}

func TestDrainEndsAWaitAndKeepsThePlace(t *testing.T) {
	inBubble(t, func(t *testing.T, s *service.Service, _ service.Party) {
		began := time.Now()
		time.AfterFunc(time.Second, s.Drain)
		_, err := s.Acquire(t.Context(), service.AcquireCall{Mutex: "deploy", Contender: "bob", Wait: time.Minute})
		if e := isKind(t, err, service.KindDraining); e.RetryAfter == 0 || e.Mutex != "deploy" {
			t.Errorf("got %+v, want deploy, to be tried again elsewhere", e)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("took %v, want until the drain, 1 s", took)
		}
		line, err := s.Waiters(t.Context(), "deploy")
		if err != nil || len(line) != 1 || line[0].Contender != "bob" || line[0].Present {
			t.Errorf("got line %+v, %v; want bob, away", line, err)
		}
	})
}

func TestDrainRefusesWaitsAndServesTheRest(t *testing.T) {
	inBubble(t, func(t *testing.T, s *service.Service, alice service.Party) {
		ctx := t.Context()
		s.Drain()
		s.Drain()
		for _, wait := range []time.Duration{0, time.Minute} {
			_, err := s.Acquire(ctx, service.AcquireCall{Mutex: "free", Wait: wait})
			isKind(t, err, service.KindDraining)
		}
		isKind(t, s.Ready(ctx), service.KindDraining)
		if _, err := s.Guard(ctx, service.GuardRequest{Mutex: "deploy", Party: alice}); err != nil {
			t.Errorf("guard: %v", err)
		}
		m, err := s.Mutex(ctx, service.ReadRequest{Mutex: "deploy"})
		if err != nil || m.Owner == nil {
			t.Errorf("read: got %+v, %v; want alice's", m, err)
		}
		_, err = s.Mutex(ctx, service.ReadRequest{Mutex: "deploy", After: &m.Revision, Wait: time.Minute})
		isKind(t, err, service.KindDraining)
		release(t, s, alice)
	})
}

func TestDrainEndsABlockingRead(t *testing.T) {
	inBubble(t, func(t *testing.T, s *service.Service, _ service.Party) {
		m, err := s.Mutex(t.Context(), service.ReadRequest{Mutex: "deploy"})
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, s.Drain)
		_, err = s.Mutex(t.Context(), service.ReadRequest{Mutex: "deploy", After: &m.Revision, Wait: time.Minute})
		isKind(t, err, service.KindDraining)
	})
}

func TestDrainEndsEventsWithoutAnError(t *testing.T) {
	inBubble(t, func(t *testing.T, s *service.Service, alice service.Party) {
		time.AfterFunc(time.Second, func() { release(t, s, alice) })
		time.AfterFunc(2*time.Second, s.Drain)
		var got []service.EventType
		for ev, err := range s.Events(t.Context(), "deploy", nil) {
			if err != nil {
				t.Errorf("got error %v, want a quiet end", err)
			}
			got = append(got, ev.Type)
		}
		if len(got) != 1 || got[0] != service.EventReleased {
			t.Errorf("got %v, want the release", got)
		}
	})
}

func TestAWaitWhoseCallerIsGoneEndsWithTheCause(t *testing.T) {
	inBubble(t, func(t *testing.T, s *service.Service, _ service.Party) {
		gone := errors.New("the client hung up")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(gone) })
		_, err := s.Acquire(ctx, service.AcquireCall{Mutex: "deploy", Wait: time.Minute})
		if !errors.Is(err, gone) {
			t.Errorf("got error %v, want %v", err, gone)
		}
	})
}

func TestABlockingReadIsCutToTheLongestPoll(t *testing.T) {
	inBubble(t, func(t *testing.T, s *service.Service, _ service.Party) {
		m, err := s.Mutex(t.Context(), service.ReadRequest{Mutex: "deploy"})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		again, err := s.Mutex(t.Context(), service.ReadRequest{Mutex: "deploy", After: &m.Revision, Wait: time.Hour})
		if took := time.Since(began); err != nil || again.Revision != m.Revision || took != maxWait {
			t.Errorf("got %+v, %v after %v; want the same after %v", again, err, took, maxWait)
		}
	})
}

func TestReadyIsTheStores(t *testing.T) {
	s := newService(t)
	if err := s.Ready(t.Context()); err != nil {
		t.Errorf("got %v, want ready", err)
	}
}

func TestDefaultsAreThoseOfThePolicy(t *testing.T) {
	got := newService(t).Defaults()
	if got.TTL != allowing.DefaultTTL || got.Transition != allowing.DefaultTransition {
		t.Errorf("got %+v, want %+v", got, allowing)
	}
}
