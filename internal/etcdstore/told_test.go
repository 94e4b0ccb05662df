package etcdstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// A reader comes while alice owns, at her replica and at the other one. Her
// owner's key is gone with its lease, which says nothing of whose it was: what
// the watch brought before the reader came has to be known.
func TestAReaderWhoComesLater(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	own := h.owns(h.a, "alice")
	if _, err := h.a.Guard(t.Context(), service.GuardRequest{Mutex: deploy, Party: party("alice")}); err != nil {
		t.Fatal(err)
	}
	h.eventually("the other replica knows", func() bool {
		f, err := h.b.Check(t.Context(), deploy)
		return err == nil && f == own.Fence
	})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	heard := make(chan service.Event, 20)
	for _, s := range []service.Store{h.a, h.b} {
		go func() {
			for ev, err := range s.Events(ctx, deploy, nil) {
				if err != nil {
					return
				}
				heard <- ev
			}
		}()
	}
	for both, i := map[service.Revision]int{}, 0; ; i++ { // until both listen
		if _, err := h.a.Acquire(t.Context(), request(fmt.Sprint("bob-", i), time.Millisecond)); !errors.Is(err, service.Of(service.KindLocked)) {
			t.Fatalf("got %v, want that it is locked", err)
		}
		ev := <-heard
		if both[ev.ID.Revision]++; both[ev.ID.Revision] == 2 {
			break
		}
	}
	if _, err := h.client.Delete(t.Context(), h.prefix+"m/deploy/owner"); err != nil {
		t.Fatal(err)
	}
	for expired := 0; expired < 2; {
		ev := <-heard
		if ev.Type == service.EventQueued || ev.Type == service.EventLeft {
			continue
		}
		if ev.Type != service.EventExpired || ev.Contender != "alice" || ev.Fence != own.Fence {
			t.Errorf("got %+v, want that alice's has expired", ev)
		}
		expired++
	}
}
