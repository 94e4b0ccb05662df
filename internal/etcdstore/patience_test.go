package etcdstore_test

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// Bob's patience ends. Before that is committed his turn comes, and an operator
// breaks what he owns: he was not merely too late, for his token is spent.
func TestWhoseTurnCameAndWentIsTold(t *testing.T) {
	h := newHouse(t)
	h.owns(h.b, "alice")
	broken := make(chan service.PastOwnership, 1)
	joined := make(chan struct{})
	h.gate.once("/line/", func() { // the join
		close(joined)
		h.gate.once("/line/", func() { // the end of patience
			h.releases(h.b, "alice")
			m, err := h.b.Mutex(t.Context(), service.ReadRequest{Mutex: deploy})
			if err != nil || m.Owner == nil {
				t.Errorf("got %+v, %v; want that bob owns", m, err)
				return
			}
			past, err := h.b.Break(t.Context(), service.BreakRequest{Mutex: deploy, Fence: m.Owner.Fence, Reason: "stuck"})
			if err != nil {
				t.Error(err)
			}
			broken <- past
		})
	})
	_, err := h.a.Acquire(t.Context(), request("bob", 50*time.Millisecond))
	<-joined
	past := <-broken
	e := (*service.Error)(nil)
	if !errors.As(err, &e) || e.Kind != service.KindTokenSpent || e.Ended != service.EndedBroken || e.Fence != past.Fence {
		t.Errorf("got %v, want that the token is spent, for %d was broken", err, past.Fence)
	}
}
