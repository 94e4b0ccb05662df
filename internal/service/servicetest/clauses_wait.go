package servicetest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-lock/holdfast/internal/service"
)

var waitClauses = []clause{
	{"wait owns as soon as it is free", func(s *scene) {
		deploy := s.mutex("deploy")
		alice, bob := deploy.party("alice"), deploy.party("bob")
		first := alice.acquires()
		wait := bob.waits(ttl(8*time.Second), transition(4*time.Second), metadata("job", "18"))
		alice.releases()
		got := wait.acquires()
		s.isFresh(got, 8*time.Second, 4*time.Second)
		if got.Contender != "bob" || got.Metadata["job"] != "18" || got.Fence <= first.Fence {
			s.t.Errorf("got %+v, want bob, job 18 and a fence above %d", got, first.Fence)
		}
		deploy.isOwnedBy("bob")
		deploy.lineIs()
	}},
	{"wait ends locked when it is over and keeps a place", func(s *scene) {
		deploy := s.mutex("deploy")
		deploy.party("alice").acquires()
		deploy.party("bob").waits()
		began := time.Now()
		wait := deploy.party("carol").polls(200 * time.Millisecond)
		e := wait.fails(service.KindLocked)
		s.happens("the end of the wait", 200*time.Millisecond, began, began, wait.endedAt)
		if e.Place != 2 || e.Waiters != 1 || e.Holder == nil || e.Holder.Contender != "alice" {
			s.t.Errorf("got place %d, %d waiters, holder %+v; want 2, 1, alice", e.Place, e.Waiters, e.Holder)
		}
		deploy.lineIs("bob")
		if got := deploy.away(); !slices.Equal(got, []string{"carol"}) {
			s.t.Errorf("got %v away, want carol", got)
		}
	}},
	{"the line shows who waits", func(s *scene) {
		deploy := s.mutex("deploy")
		deploy.party("alice").acquires()
		deploy.party("bob").waits(metadata("job", "18"))
		carol := deploy.party("carol").waits()
		deploy.party("dave").waits()
		carol.isCancelled()
		line := deploy.line()
		for i, want := range []service.Waiter{
			{Contender: "bob", Place: 1, Present: true}, {Contender: "carol"}, {Contender: "dave", Place: 2, Present: true},
		} {
			if i >= len(line) {
				s.t.Fatalf("got %d in line, want 3", len(line))
			}
			if got := line[i]; got.Contender != want.Contender || got.Place != want.Place || got.Present != want.Present {
				s.t.Errorf("got %+v, want %+v", got, want)
			}
		}
		if line[0].Metadata["job"] != "18" || line[0].JoinedAt.IsZero() || line[2].JoinedAt.Before(line[0].JoinedAt) {
			s.t.Errorf("got %+v before %+v, want job 18 and times that grow", line[0], line[2])
		}
		if got := deploy.reads().Waiters; got != 2 {
			s.t.Errorf("got %d waiters, want those present, 2", got)
		}
	}},
	{"P5 waiters are served in the order in which they joined", func(s *scene) {
		deploy := s.mutex("deploy")
		alice := deploy.party("alice")
		alice.acquires()
		waits := make([]*polling, 50)
		for i := range waits {
			waits[i] = deploy.party(fmt.Sprintf("waiter-%02d", i)).waits()
			time.Sleep(10 * time.Millisecond) // the interval at which an order by time is lost
		}
		alice.releases()
		var last service.Fence
		for i, wait := range waits {
			got := wait.acquires()
			if got.Fence <= last {
				s.t.Fatalf("got fence %d for waiter %d, want above %d", got.Fence, i, last)
			}
			last = got.Fence
			deploy.isOwnedBy(wait.party.name())
			wait.party.releases()
		}
		deploy.isIdle()
	}},
	{"P5 nobody barges past a waiter", func(s *scene) {
		deploy := s.mutex("deploy")
		alice := deploy.party("alice")
		alice.acquires()
		bob := deploy.party("bob").waits()
		carol := deploy.party("carol")
		if e := carol.isRefused(service.KindLocked); e.Waiters != 1 {
			s.t.Errorf("got %d waiters, want 1", e.Waiters)
		}
		alice.releases()
		carol.isRefused(service.KindLocked)
		bob.acquires()
		deploy.isOwnedBy("bob")
	}},
	{"P5 who released can wait again behind the others", func(s *scene) {
		deploy := s.mutex("deploy")
		alice := deploy.party("alice")
		alice.acquires()
		bob := deploy.party("bob").waits()
		again := alice.withNewToken()
		behind := again.waits()
		alice.releases()
		bob.acquires()
		deploy.lineIs("alice")
		bob.party.releases()
		behind.acquires()
	}},
	{"P6 a wait that was cancelled never owns", func(s *scene) {
		deploy := s.mutex("deploy")
		alice := deploy.party("alice")
		alice.acquires()
		bob := deploy.party("bob").waits()
		bob.isCancelled()
		deploy.lineIs()
		alice.releases()
		deploy.isIdle()
		s.remains("idle", func() bool { return deploy.owner() == "" })
		deploy.party("carol").acquires()
	}},
	{"P6 a wait that is cancelled while it is granted passes on", func(s *scene) {
		gone := errors.New("the client hung up")
		for i := range 30 {
			deploy := s.mutex(fmt.Sprintf("deploy-%d", i))
			alice, bob := deploy.party("alice"), deploy.party("bob")
			alice.acquires()
			wait := bob.waits()
			if i%2 == 0 {
				go wait.hangUp(gone)
				alice.releases()
			} else { // it is bob's turn, whether he has noticed or not
				alice.releases()
				wait.hangUp(gone)
			}
			wait.ends()
			if wait.err == nil {
				wait.acquires()
				deploy.isOwnedBy("bob")
				continue
			}
			if !errors.Is(wait.err, gone) {
				s.t.Fatalf("got error %v, want %v", wait.err, gone)
			}
			deploy.isIdle()
			deploy.lineIs()
			bob.acquires() // the token is not spent
		}
	}},
	{"a newer poll supersedes the older one", func(s *scene) {
		deploy := s.mutex("deploy")
		alice, bob := deploy.party("alice"), deploy.party("bob")
		alice.acquires()
		older := bob.waits()
		carol := deploy.party("carol").waits()
		newer := bob.polls(time.Minute, metadata("job", "newer"))
		older.fails(service.KindSuperseded)
		deploy.lineIs("bob", "carol")
		alice.releases()
		if got := newer.acquires(); got.Metadata["job"] != "newer" {
			s.t.Errorf("got metadata %v, want the newer poll's", got.Metadata)
		}
		bob.releases()
		carol.acquires()
	}},
	{"P8 a poll that repeats one which is being granted gets the same", func(s *scene) {
		for i := range 30 {
			deploy := s.mutex(fmt.Sprintf("deploy-%d", i))
			alice, bob := deploy.party("alice"), deploy.party("bob")
			alice.acquires()
			older := bob.waits()
			var newer *polling
			if i%2 == 0 {
				newer = bob.polls(time.Minute)
				alice.releases()
			} else { // it is bob's turn, whether he has noticed or not
				alice.releases()
				newer = bob.polls(time.Minute)
			}
			held := newer.acquires()
			older.ends()
			if older.err != nil {
				older.fails(service.KindSuperseded)
			} else if got := older.acquires(); got.Fence != held.Fence {
				s.t.Fatalf("got fences %d and %d, want one", got.Fence, held.Fence)
			}
			deploy.isOwnedBy("bob")
			deploy.lineIs()
		}
	}},
	{"a poll whose place was released ends", func(s *scene) {
		deploy := s.mutex("deploy")
		alice, bob := deploy.party("alice"), deploy.party("bob")
		alice.acquires()
		wait := bob.waits()
		bob.releaseSays(service.LeftLine, "")
		wait.fails(service.KindLeftLine)
		if line := deploy.line(); len(line) != 0 {
			s.t.Errorf("got line %+v, want nobody", line)
		}
		alice.releases()
		deploy.isIdle()
	}},
	{"a full line takes nobody else", func(s *scene) {
		deploy := s.mutex("deploy")
		deploy.declares(service.Settings{TTL: 10 * time.Second, MaxWaiters: 2})
		alice := deploy.party("alice")
		alice.acquires()
		bob := deploy.party("bob").waits()
		deploy.party("carol").waits()
		dave := deploy.party("dave")
		if e := dave.polls(time.Minute).fails(service.KindTooManyWaiters); e.Waiters != 2 {
			s.t.Errorf("got %d waiters, want 2", e.Waiters)
		}
		dave.isRefused(service.KindLocked)
		bob.isCancelled() // those away do not count
		dave.waits()
		deploy.lineIs("carol", "dave")
		bob.party.waits() // and who has a place keeps it
		deploy.lineIs("bob", "carol", "dave")
		alice.guards()
	}},
}
