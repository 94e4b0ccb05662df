package etcdstore_test

import (
	"errors"
	"testing"

	"github.com/holdfast-lock/holdfast/internal/etcdstore"
	"github.com/holdfast-lock/holdfast/internal/service"
)

// A call of alice's fails against a guard, and reads that she owns and that
// nothing is settled. Before it hears of that, her release is committed and
// seen. What was read no longer fits what is seen: she is not told that nobody
// knows how it ended.
func TestARefusalRestsOnOneRead(t *testing.T) {
	release := service.ReleaseRequest{Mutex: deploy, Party: party("alice"), OperationID: "release-1"}
	guard := service.GuardRequest{Mutex: deploy, Party: party("alice")}
	for name, call := range map[string]func(h *house){
		"release": func(h *house) {
			if got, err := h.a.Release(h.t.Context(), release); err != nil || got != service.ReleasedNow {
				h.t.Errorf("got %v, %v; want released", got, err)
			}
		},
		"guard": func(h *house) {
			_, err := h.a.Guard(h.t.Context(), guard)
			if e := (*service.Error)(nil); !errors.As(err, &e) || e.Kind != service.KindNotOwner || e.Ended != service.EndedReleased {
				h.t.Errorf("got %v, want that it was released", err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			h.owns(h.a, "alice")
			h.gate.once("/owner", func() {
				if _, err := h.b.Guard(t.Context(), guard); err != nil {
					t.Error(err)
				}
			})
			h.gate.afterwards("/owner", func() {
				if got, err := h.b.Release(t.Context(), release); err != nil || got != service.ReleasedNow {
					t.Errorf("got %v, %v", got, err)
				}
				h.forgets(h.a)
			})
			call(h)
		})
	}
}

// forgets waits until nothing is owned in what a replica lists, which is its
// view.
func (h *house) forgets(s *etcdstore.Store) {
	h.t.Helper()
	h.eventually("it has seen the end", func() bool {
		page, err := s.List(h.t.Context(), service.ListRequest{Limit: 10})
		return err == nil && len(page.Mutexes) == 0
	})
}
