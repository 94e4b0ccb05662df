package service_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-lock/holdfast/internal/service"
	"github.com/holdfast-lock/holdfast/internal/service/servicetest"
)

const maxWait = 50 * time.Second

func newService(t *testing.T) *service.Service {
	store := servicetest.NewMemory(allowing)
	t.Cleanup(store.Close)
	return service.New(store, service.Config{Policy: allowing, MaxWait: maxWait})
}

func TestAcquireChoosesATokenAndAContender(t *testing.T) {
	s := newService(t)
	got, err := s.Acquire(t.Context(), service.AcquireCall{Mutex: "deploy"})
	if err != nil {
		t.Fatal(err)
	}
	got.Grant.Told()
	if len(got.Token) < service.MinTokenLength || got.Contender != service.Anonymous(got.Token) {
		t.Errorf("got contender %q, token %q; want a token, and who it stands for", got.Contender, got.Token)
	}
	if _, err := s.Guard(t.Context(), service.GuardRequest{Mutex: "deploy", Party: service.PartyOf("", got.Token)}); err != nil {
		t.Errorf("guard with the chosen token: %v", err)
	}
}

func TestAcquireInVainSaysWhoAsked(t *testing.T) {
	s := newService(t)
	owns(t, s, "alice")
	got, err := s.Acquire(t.Context(), service.AcquireCall{Mutex: "deploy"})
	isKind(t, err, service.KindLocked)
	if got.Token == "" || got.Contender != service.Anonymous(got.Token) || got.Grant != nil {
		t.Errorf("got %+v, want the token to poll again with", got)
	}
	got, err = s.Acquire(t.Context(), service.AcquireCall{Mutex: "deploy", Contender: "bob", Token: "0123456789abcdef"})
	isKind(t, err, service.KindLocked)
	if got.Contender != "bob" || got.Token != "0123456789abcdef" {
		t.Errorf("got %+v, want bob and the token given", got)
	}
}

func TestAcquireLimitsMetadata(t *testing.T) {
	s := newService(t)
	call := service.AcquireCall{Mutex: "deploy", Metadata: map[string]string{"k": strings.Repeat("v", service.MaxMetadata)}}
	_, err := s.Acquire(t.Context(), call)
	isInvalid(t, "2049 bytes", "metadata", err)
	call.Metadata["k"] = strings.Repeat("v", service.MaxMetadata-1)
	if _, err := s.Acquire(t.Context(), call); err != nil {
		t.Errorf("2048 bytes: %v", err)
	}
}

func TestAcquireCutsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		for asked, want := range map[time.Duration]time.Duration{time.Hour: maxWait, 3 * time.Second: 3 * time.Second, 0: 0} {
			owner := owns(t, s, "alice")
			began := time.Now()
			_, err := s.Acquire(t.Context(), service.AcquireCall{Mutex: "deploy", Wait: asked})
			e := isKind(t, err, service.KindLocked)
			if took := time.Since(began); took != want || e.Waited != want {
				t.Errorf("a wait of %v: took %v, said %v; want %v", asked, took, e.Waited, want)
			}
			release(t, s, owner)
		}
	})
}

func TestAcquireSaysWhenToTryAgain(t *testing.T) {
	for what, c := range map[string]struct {
		err  service.Error
		want time.Duration
	}{
		"with a place":            {service.Error{Kind: service.KindLocked, Place: 2, Holder: &service.Ownership{}}, 0},
		"when the windows end":    {service.Error{Kind: service.KindLocked, Holder: &service.Ownership{TransitionRemaining: 16 * time.Second}}, 16 * time.Second},
		"not at once":             {service.Error{Kind: service.KindLocked, Holder: &service.Ownership{TransitionRemaining: time.Millisecond}}, time.Second},
		"not only after an hour":  {service.Error{Kind: service.KindLocked, Holder: &service.Ownership{TransitionRemaining: time.Hour}}, time.Minute},
		"with nobody to wait for": {service.Error{Kind: service.KindLocked}, time.Second},
		"never, of other kinds":   {service.Error{Kind: service.KindTokenSpent, Holder: &service.Ownership{}}, 0},
	} {
		s := service.New(refusing{err: &c.err}, service.Config{MaxWait: maxWait})
		_, err := s.Acquire(t.Context(), service.AcquireCall{Mutex: "deploy"})
		if e := isKind(t, err, c.err.Kind); e.RetryAfter != c.want {
			t.Errorf("%s: got %v, want %v", what, e.RetryAfter, c.want)
		}
	}
}

// refusing is a store that refuses every acquire.
type refusing struct {
	service.Store
	err error
}

func (r refusing) Acquire(context.Context, service.AcquireRequest) (service.Grant, error) {
	return nil, r.err
}

// owns makes a new party of that contender the owner.
func owns(t *testing.T, s *service.Service, contender service.ContenderID) service.Party {
	t.Helper()
	got, err := s.Acquire(t.Context(), service.AcquireCall{Mutex: "deploy", Contender: contender, Asked: service.Asked{TTL: new(time.Hour)}})
	if err != nil {
		t.Fatal(err)
	}
	got.Grant.Told()
	return service.NewParty(got.Contender, got.Token)
}

func release(t *testing.T, s *service.Service, p service.Party) {
	t.Helper()
	got, err := s.Release(t.Context(), service.ReleaseRequest{Mutex: "deploy", Party: p})
	if err != nil || got != service.ReleasedNow {
		t.Fatalf("release: got %d, %v; want that it is released now", got, err)
	}
}

func isKind(t *testing.T, err error, want service.Kind) *service.Error {
	t.Helper()
	var e *service.Error
	if !errors.As(err, &e) || e.Kind != want {
		t.Fatalf("got error %v, want kind %q", err, want)
	}
	return e
}
