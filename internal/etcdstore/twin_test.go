package etcdstore_test

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// Bob polls twice with one token. The first poll decides to join, for alice
// owns; before that is committed she releases, and the second poll takes the
// mutex. A place that the first writes all the same is one of who owns: bob's
// release would hand over to bob, with a token that is spent, and to a poll
// that has ended.
func TestWhoOwnsIsNotInLine(t *testing.T) {
	h := newHouse(t)
	h.owns(h.b, "alice")
	h.gate.once("/line/", func() {
		h.releases(h.b, "alice")
		h.owns(h.b, "bob")
	})
	first := h.polls(h.a, "bob")
	first.ends()
	if first.err != nil && !errors.Is(first.err, service.Of(service.KindSuperseded)) {
		t.Errorf("got %v, want the ownership, or that a newer poll has it", first.err)
	}
	if first.grant != nil {
		first.grant.Told()
	}
	if h.present("bob") {
		t.Error("bob is in line for what he owns")
	}
	h.releases(h.b, "bob")
	if got := h.owner(); got != "" {
		t.Errorf("got owner %q, want nobody", got)
	}
}

// The same, but bob releases before that place is taken out of the line again.
func TestAReleaseHandsOverToSomebodyElse(t *testing.T) {
	h := newHouse(t)
	h.owns(h.b, "alice")
	h.gate.once("/line/", func() {
		h.releases(h.b, "alice")
		h.owns(h.b, "bob")
		h.gate.once("/line/", func() {
			if !h.present("bob") {
				t.Error("the place is gone already: this test is of nothing")
			}
			h.releases(h.b, "bob")
		})
	})
	first := h.polls(h.a, "bob")
	first.ends()
	if !errors.Is(first.err, service.Of(service.KindTokenSpent)) {
		t.Errorf("got %v, want that the token is spent", first.err)
	}
	if got := h.owner(); got != "" || h.present("bob") {
		t.Errorf("got owner %q, and bob in line: %v; want neither", got, h.present("bob"))
	}
}

// The same, but bob's place is still there when the mutex, by way of somebody
// else, comes round to it.
func TestASpentTokenIsNotHandedTheMutex(t *testing.T) {
	h := newHouse(t)
	h.owns(h.b, "alice")
	place := "m/deploy/line/" + string(party("bob").Pair)
	first := h.waits(h.b, "bob")
	h.puts("settled/deploy/"+string(party("bob").Pair),
		`{"v":1,"contender_id":"bob","ended":"released","fencing_token":1,"ended_at":"2026-01-01T00:00:00Z"}`)
	released := make(chan error, 1)
	go func() {
		_, err := h.a.Release(t.Context(), service.ReleaseRequest{Mutex: deploy, Party: party("alice")})
		released <- err
	}()
	select {
	case err := <-released:
		t.Errorf("got %v from the release: it handed over to bob", err)
	case <-time.After(100 * time.Millisecond):
	}
	if _, err := h.client.Delete(t.Context(), h.prefix+place); err != nil {
		t.Fatal(err)
	}
	if err := <-released; err != nil {
		t.Error(err)
	}
	first.ends()
	if !errors.Is(first.err, service.Of(service.KindTokenSpent)) {
		t.Errorf("got %v, want that the token is spent", first.err)
	}
}
