package etcdstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// slow has every transaction that writes an owner, or several, sent late, and
// counts them.
type slow struct {
	mu   sync.Mutex
	sent int // guarded by mu
}

func (h *house) slow(late time.Duration) *slow {
	s := &slow{}
	h.gate.mu.Lock()
	defer h.gate.mu.Unlock()
	h.gate.before = func(keys string) {
		if !strings.Contains(keys, "/owner") && strings.Trim(keys, "\n") != "" {
			return
		}
		s.mu.Lock()
		s.sent++
		s.mu.Unlock()
		h.gate.mu.Unlock()
		time.Sleep(late)
		h.gate.mu.Lock()
	}
	return s
}

func (s *slow) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent
}

// Etcd is slow, and the client guards again before it has an answer: that one
// waits for the one before instead of failing on it.
func TestAGuardWaitsForTheOneBefore(t *testing.T) {
	t.Parallel()
	renewals := map[string]func(h *house, ctx context.Context) error{
		"guard": func(h *house, ctx context.Context) error {
			_, err := h.a.Guard(ctx, service.GuardRequest{Mutex: deploy, Party: party("alice")})
			return err
		},
		"batch": func(h *house, ctx context.Context) error {
			return h.a.GuardMany(ctx, []service.GuardRequest{{Mutex: deploy, Party: party("alice")}})[0].Err
		},
		"acquire": func(h *house, ctx context.Context) error {
			g, err := h.a.Acquire(ctx, request("alice", 0))
			if err == nil {
				g.Told()
			}
			return err
		},
	}
	for first, one := range renewals {
		for second, other := range renewals {
			t.Run(first+" and "+second, func(t *testing.T) {
				t.Parallel()
				h := newHouse(t)
				h.owns(h.a, "alice")
				s := h.slow(300 * time.Millisecond)
				errs := make(chan error, 2)
				go func() { errs <- one(h, t.Context()) }()
				h.eventually("the first is on its way", func() bool { return s.count() == 1 })
				go func() { errs <- other(h, t.Context()) }()
				for range 2 {
					if err := <-errs; err != nil {
						t.Error(err)
					}
				}
				if got := s.count(); got != 2 {
					t.Errorf("got %d transactions, want one for each", got)
				}
			})
		}
	}
}

// Who gives up while it waits hinders nobody.
func TestAGuardGivesUpItsTurn(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.owns(h.a, "alice")
	s := h.slow(500 * time.Millisecond)
	guard := func(ctx context.Context) error {
		_, err := h.a.Guard(ctx, service.GuardRequest{Mutex: deploy, Party: party("alice")})
		return err
	}
	first := make(chan error, 1)
	go func() { first <- guard(t.Context()) }()
	h.eventually("the first is on its way", func() bool { return s.count() == 1 })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := guard(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want that it gave up", err)
	}
	if err := errors.Join(<-first, guard(t.Context())); err != nil {
		t.Error(err)
	}
	if got := s.count(); got != 2 {
		t.Errorf("got %d transactions, want none of the one that gave up", got)
	}
}

// Batches of the same mutexes, named in different orders, come at once.
func TestBatchesDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	var reqs []service.GuardRequest
	for i := range 40 {
		name := service.Name(fmt.Sprint("deploy-", i))
		g, err := h.a.Acquire(t.Context(), service.AcquireRequest{Mutex: name, Party: party("alice")})
		if err != nil {
			t.Fatal(err)
		}
		g.Told()
		reqs = append(reqs, service.GuardRequest{Mutex: name, Party: party("alice")})
	}
	var wg sync.WaitGroup
	for i := range 8 {
		turned := append(append([]service.GuardRequest{}, reqs[5*i:]...), reqs[:5*i]...)
		wg.Go(func() {
			for range 20 {
				for _, r := range h.a.GuardMany(t.Context(), turned) {
					if r.Err != nil {
						t.Error(r.Err)
					}
				}
			}
		})
	}
	wg.Wait()
}
