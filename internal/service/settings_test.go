package service_test

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-lock/holdfast/internal/service"
)

var (
	allowing = service.Policy{DefaultTTL: 10 * time.Second, DefaultTransition: 6 * time.Second}
	denying  = service.Policy{DefaultTTL: 10 * time.Second, DefaultTransition: 6 * time.Second, DenyUndeclared: true}
)

func TestResolve(t *testing.T) {
	declared := service.Settings{TTL: time.Second, MaxWaiters: 3}
	for _, p := range []service.Policy{allowing, denying} {
		if got, err := p.Resolve("deploy", &declared); err != nil || got.TTL != time.Second || got.MaxWaiters != 3 {
			t.Errorf("got %+v, %v; want what is declared", got, err)
		}
	}
	got, err := allowing.Resolve("deploy", nil)
	if err != nil || got.TTL != 10*time.Second || got.Transition != 6*time.Second || got.MaxHold != 0 || got.MaxWaiters != 0 {
		t.Errorf("got %+v, %v; want the defaults", got, err)
	}
	var e *service.Error
	if _, err := denying.Resolve("deploy", nil); !errors.As(err, &e) || e.Kind != service.KindMutexNotDeclared || e.Mutex != "deploy" {
		t.Errorf("got error %v, want that deploy is not declared", err)
	}
}

func TestAskingForLess(t *testing.T) {
	s := service.Settings{TTL: 10 * time.Second, Transition: 6 * time.Second, MaxHold: time.Hour}
	less := service.Asked{TTL: new(time.Second), Transition: new(time.Duration(0))}
	for _, declared := range []bool{true, false} {
		got, err := s.Grant(declared, less)
		if want := (service.Terms{TTL: time.Second, MaxHold: time.Hour}); err != nil || got != want {
			t.Errorf("declared %t: got %+v, %v; want %+v", declared, got, err, want)
		}
		if renewed := s.Renew(declared, less); renewed != got {
			t.Errorf("declared %t: got %+v from a guard, want %+v", declared, renewed, got)
		}
	}
}

func TestAskingForMore(t *testing.T) {
	s := service.Settings{TTL: 10 * time.Second, Transition: 6 * time.Second}
	for field, more := range map[string]service.Asked{
		"ttl_ms":        {TTL: new(11 * time.Second)},
		"transition_ms": {Transition: new(7 * time.Second)},
	} {
		_, err := s.Grant(true, more)
		isInvalid(t, "more", field, err)
		if got, err := s.Grant(false, more); err != nil || got.Window() != 17*time.Second {
			t.Errorf("%s: got %+v, %v; want as much as was asked", field, got, err)
		}
		if got := s.Renew(true, more); got.Window() != s.TTL+s.Transition {
			t.Errorf("%s: got %+v from a guard, want what is declared", field, got)
		}
	}
}

func TestAskingForNothing(t *testing.T) {
	s := service.Settings{TTL: 10 * time.Second, Transition: 6 * time.Second}
	got, err := s.Grant(true, service.Asked{})
	if want := (service.Terms{TTL: 10 * time.Second, Transition: 6 * time.Second}); err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
}

func TestRenewIsTheSmaller(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := service.Settings{TTL: duration(t, "ttl"), Transition: duration(t, "transition")}
		asked := service.Asked{TTL: new(duration(t, "asked ttl")), Transition: new(duration(t, "asked transition"))}
		got := s.Renew(true, asked)
		if got.TTL != min(s.TTL, *asked.TTL) || got.Transition != min(s.Transition, *asked.Transition) {
			t.Fatalf("got %+v of declared %+v", got, s)
		}
		if granted, err := s.Grant(true, asked); err == nil && granted != got {
			t.Fatalf("got %+v from a grant and %+v from a guard", granted, got)
		}
	})
}

func TestCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		terms := service.Terms{TTL: duration(t, "ttl"), Transition: duration(t, "transition"), MaxHold: duration(t, "max hold")}
		held := duration(t, "held")
		ttl, window := terms.Cut(held)
		if ttl < 0 || ttl > window || ttl > terms.TTL || window > terms.Window() {
			t.Fatalf("got %v within %v, want no more than %+v", ttl, window, terms)
		}
		ends := held + window
		switch {
		case terms.MaxHold == 0:
			if window != terms.Window() || ttl != terms.TTL {
				t.Fatalf("got %v and %v without max_hold, want all of %+v", ttl, window, terms)
			}
		case held < terms.MaxHold && ends != min(terms.MaxHold, held+terms.Window()):
			t.Fatalf("got an end at %v, want max_hold or the whole window", ends)
		case held >= terms.MaxHold && window != 0:
			t.Fatalf("got %v beyond max_hold, want nothing", window)
		}
	})
}

// duration is one from 0 to a day, often 0.
func duration(t *rapid.T, label string) time.Duration {
	return time.Duration(rapid.Int64Range(0, int64(service.MaxTTL/time.Millisecond)).Draw(t, label)) * time.Millisecond
}
