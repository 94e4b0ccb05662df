package servicetest

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-lock/holdfast/internal/service"
)

var guardClauses = []clause{
	{"guard starts both windows again", func(s *scene) {
		deploy := s.mutex("deploy")
		alice := deploy.party("alice")
		first := alice.acquires(ttl(8*time.Second), transition(4*time.Second), metadata("job", "17"))
		time.Sleep(100 * time.Millisecond)
		got := alice.guards()
		s.isFresh(got, 8*time.Second, 4*time.Second)
		if got.Fence != first.Fence || got.Contender != "alice" || got.Metadata["job"] != "17" {
			s.t.Errorf("got %+v, want what was acquired, %+v", got, first)
		}
		if got.Held < 100*time.Millisecond || !got.AcquiredAt.Equal(first.AcquiredAt) {
			s.t.Errorf("got held %v since %v, want since %v", got.Held, got.AcquiredAt, first.AcquiredAt)
		}
	}},
	{"guard without owning says who owns", func(s *scene) {
		deploy := s.mutex("deploy")
		bob := deploy.party("bob")
		if e := bob.guardIsRefused(service.KindNotOwner); e.Ended != service.EndedUnknown || e.Holder != nil {
			s.t.Errorf("got ended %q, holder %+v; want unknown, nobody", e.Ended, e.Holder)
		}
		held := deploy.party("alice").acquires()
		for range 2 { // a waiter is no owner either
			if e := bob.guardIsRefused(service.KindNotOwner); e.Holder == nil || e.Holder.Fence != held.Fence {
				s.t.Errorf("got holder %+v, want alice", e.Holder)
			}
			bob.waits()
		}
	}},
	{"guard by who owned before leaves the owner alone", func(s *scene) {
		deploy := s.mutex("deploy")
		alice, bob := deploy.party("alice"), deploy.party("bob")
		had := alice.acquires()
		alice.releases()
		bob.acquires(ttl(shortTTL), transition(shortTransition))
		sent := time.Now()
		bob.guards()
		answered := time.Now()
		for range 3 {
			time.Sleep(shortTTL / 4)
			if e := alice.guardIsRefused(service.KindNotOwner); e.Ended != service.EndedReleased || e.Fence != had.Fence {
				s.t.Errorf("got ended %q of %d, want released of %d", e.Ended, e.Fence, had.Fence)
			}
		}
		deploy.becomesIdle() // bob's windows were not touched
		s.happens("the end", shortWindow, sent, answered, time.Now())
	}},
	{"guard many has an outcome for each in order", func(s *scene) {
		ctx := s.t.Context()
		if got := s.store.GuardMany(ctx, nil); len(got) != 0 {
			s.t.Errorf("got %d results, want none", len(got))
		}
		var reqs []service.GuardRequest
		var want []service.Fence
		for i := range 130 { // more than fit into one proposal to etcd
			p := s.mutex(fmt.Sprintf("deploy-%d", i)).party("alice")
			fence := p.acquires().Fence
			if i%3 == 0 {
				p.releases()
				fence = 0
			}
			reqs = append(reqs, service.GuardRequest{Mutex: p.lock.name, Party: p.who})
			want = append(want, fence)
		}
		reqs, want = append(reqs, reqs...), append(want, want...) // the same ones twice
		got := s.store.GuardMany(ctx, reqs)
		if len(got) != len(reqs) {
			s.t.Fatalf("got %d results, want %d", len(got), len(reqs))
		}
		for i, r := range got {
			if want[i] == 0 {
				s.kind(r.Err, service.KindNotOwner)
				continue
			}
			s.ok(r.Err)
			if r.Ownership.Fence != want[i] {
				s.t.Errorf("item %d: got fence %d, want %d", i, r.Ownership.Fence, want[i])
			}
		}
	}},
	{"guard many renews each", func(s *scene) {
		deploy, build := s.mutex("deploy"), s.mutex("build")
		alice, bob := deploy.party("alice"), build.party("bob")
		for _, p := range []*party{alice, bob} {
			p.acquires(ttl(keptTTL), transition(keptTransition))
		}
		for range keepingGuards {
			time.Sleep(keepingEvery)
			for _, r := range s.store.GuardMany(s.t.Context(), []service.GuardRequest{
				{Mutex: deploy.name, Party: alice.who}, {Mutex: build.name, Party: bob.who},
			}) {
				s.ok(r.Err)
				s.isFresh(r.Ownership, keptTTL, keptTransition)
			}
		}
		deploy.isOwnedBy("alice")
		build.isOwnedBy("bob")
	}},
	{"a guard in flight does not revive what was released", func(s *scene) {
		deploy := s.mutex("deploy")
		for range 100 {
			alice := deploy.party("alice")
			had := alice.acquires()
			var guard sync.WaitGroup
			guard.Go(func() {
				_, err := alice.guard()
				var e *service.Error
				if err != nil && (!errors.As(err, &e) || e.Kind != service.KindNotOwner || e.Ended != service.EndedReleased) {
					s.t.Errorf("got error %v, want nil or that it was released", err)
				}
			})
			alice.releases()
			if got := deploy.fence(); got != 0 {
				s.t.Errorf("got fence %d after the release of %d, want 0", got, had.Fence)
			}
			guard.Wait()
			deploy.isIdle()
		}
	}},
}
