package service_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/holdfast-lock/holdfast/internal/service"
)

func TestKindsAreTotal(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range service.Kinds() {
		if k.String() == "" || seen[k.String()] {
			t.Errorf("kind %d: got text %q, want one of its own", k, k)
		}
		seen[k.String()] = true
	}
	last := service.Kinds()[len(seen)-1]
	if next := last + 1; next.String() != "" {
		t.Errorf("got text %q for a kind after the last, want it among the kinds", next)
	}
	if zero := service.Kind(0); zero.String() != "" {
		t.Errorf("got text %q for no kind, want none", zero)
	}
}

func TestErrorIsItsKindAndItsCause(t *testing.T) {
	err := fmt.Errorf("acquire: %w", &service.Error{Kind: service.KindUnavailable, Mutex: "deploy", Err: context.DeadlineExceeded})
	if !errors.Is(err, service.Of(service.KindUnavailable)) {
		t.Errorf("got %v, want it to be unavailable", err)
	}
	if errors.Is(err, service.Of(service.KindLocked)) {
		t.Errorf("got %v, want it not to be locked", err)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want it to have its cause", err)
	}
}

func TestErrorText(t *testing.T) {
	for want, err := range map[string]*service.Error{
		`mutex "deploy": mutex is locked`:        {Kind: service.KindLocked, Mutex: "deploy"},
		`invalid argument: ttl_ms: must be less`: service.Invalid("ttl_ms", "must be less"),
		`unavailable: context deadline exceeded`: {Kind: service.KindUnavailable, Err: context.DeadlineExceeded},
	} {
		if got := err.Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
