package etcdstore_test

import (
	"errors"
	"testing"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// What was broken is not declared any more when the break is repeated: it
// means the same all the same, and a break of something else is refused.
func TestABreakIsRepeatedAfterTheRemoval(t *testing.T) {
	deny := policy
	deny.DenyUndeclared = true
	s := replica(t, etcd(t), "/t/", deny)
	settings := service.Settings{TTL: policy.DefaultTTL}
	if _, _, err := s.Declare(t.Context(), service.DeclareRequest{Mutex: deploy, Settings: settings}); err != nil {
		t.Fatal(err)
	}
	g, err := s.Acquire(t.Context(), request("alice", 0))
	if err != nil {
		t.Fatal(err)
	}
	g.Told()
	if err := s.Remove(t.Context(), service.RemoveRequest{Mutex: deploy, Force: true}); err != nil {
		t.Fatal(err)
	}
	fence := g.Ownership().Fence
	past, err := s.Break(t.Context(), service.BreakRequest{Mutex: deploy, Fence: fence, Reason: "again"})
	if err != nil || past.Ended != service.EndedBroken || past.Contender != "alice" {
		t.Errorf("got %+v, %v; want what was broken", past, err)
	}
	_, err = s.Break(t.Context(), service.BreakRequest{Mutex: deploy, Fence: fence + 1, Reason: "another"})
	if !errors.Is(err, service.Of(service.KindMutexNotDeclared)) {
		t.Errorf("got %v, want that it is not declared", err)
	}
}
