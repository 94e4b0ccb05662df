package torture_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// movable is a cluster of two replicas of which the first has a wall clock of
// its own.
func movable(t *testing.T, ahead time.Duration) (*cluster, *harness.WallClock) {
	t.Helper()
	clock := harness.NewWallClock(t)
	clock.Move(ahead)
	return openClusterOf(t, harness.ClusterConfig{
		Replicas: 2, Members: 1,
		Programs: []string{harness.MovedProgram(t)},
		Env: func(replica int) []string {
			if replica == 0 {
				return []string{clock.Env()}
			}
			return nil
		},
	}), clock
}

// isAhead waits until a replica's wall clock is, which is seen in the Date of
// its answers.
func (s *stage) isAhead(ahead time.Duration) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("the wall clock is %v ahead", ahead), func() bool {
		date, err := http.ParseTime(s.eye.Must(s.t, "GET", "/healthz", nil).Header.Get("Date"))
		if err != nil {
			s.t.Fatal(err)
		}
		return (time.Until(date) - ahead).Abs() < 10*time.Second
	})
}

// The expiry of leases moved with the wall clock (etcd-io/etcd 12291).
func TestT33WallClockMoves(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(fmt.Sprint(ahead), func(t *testing.T) {
			t.Parallel()
			c, clock := movable(t, 0)
			// Who is served by the one that moves, and by the other.
			at := []*underWay{begins(t, c, 0), begins(t, c, 1)}
			clock.Move(ahead)
			c.at(0).isAhead(ahead)
			for _, u := range at {
				u.goesOn(t)
			}
			holdIsBounded(t, 6*time.Second, at[0].aged, at[1].aged)
			for _, u := range at {
				u.ends(t)
			}
		})
	}
}

// underWay is everything at one replica that is counted in time: those who
// guard, those who went silent, one who waits in vain, a place of one who is
// away, a token that is spent, and one who may hold no longer than declared.
type underWay struct {
	s, other     *stage
	keep, silent holders
	next         []*poll
	spent        *party
	spentMutex   string
	held, aged   grant
	vain         *poll
	place        struct {
		alice, bob *party
		carols     *poll
	}
}

func begins(t *testing.T, c *cluster, replica int) *underWay {
	u := &underWay{s: c.at(replica), other: c.at(1 - replica)}
	name := func(what string) string { return fmt.Sprintf("%s-%d", what, replica) }
	s := u.s
	for i := range 3 {
		u.keep = append(u.keep, c.keeper(name(fmt.Sprintf("guards-%d", i)), 2*time.Second, 0, replica))
	}
	u.spent, u.spentMutex = s.party("alice"), name("spent")
	u.spent.Acquires(u.spentMutex)
	u.spent.Releases(u.spentMutex)
	u.place.alice, u.place.bob = s.party("alice"), s.party("bob")
	u.place.alice.Acquires(name("line"), long)
	u.place.bob.joins(name("line"), generous).HangsUp()
	s.eventually("bob is away", func() bool { return s.waiters(name("line")) == 0 })
	u.place.carols = s.party("carol").joins(name("line"), generous, long)
	u.held = s.party("alice").Acquires(name("vain"), long)
	u.vain = s.party("bob").Asks(name("vain"), 3*time.Second)
	s.declares(name("bounded"), map[string]any{"max_hold_ms": 6000, "ttl_ms": 5000, "transition_ms": 5000})
	u.aged = s.party("alice").Acquires(name("bounded"))
	for i := range 3 {
		h := c.holder(name(fmt.Sprintf("silent-%d", i)), 1500*time.Millisecond, time.Second, replica)
		u.next = append(u.next, s.party(name("next")).Asks(h.mutex, generous, long))
		u.silent = append(u.silent, h)
	}
	return u
}

// goesOn fails the test unless everything goes on as if no clock had moved.
func (u *underWay) goesOn(t *testing.T) {
	ageIsShown(u.s, u.held)
	ageIsAbout(u.other, u.held, 250*time.Millisecond) // it learned of it from the watch
	p := u.place
	mutex := p.carols.mutex
	back := p.bob.joins(mutex, generous, long)
	p.alice.Releases(mutex)
	back.Owns().releases()
	p.carols.Owns().releases()
}

// ends is the same for what takes longer.
func (u *underWay) ends(t *testing.T) {
	// Three seconds of waiting, on a busy machine.
	if r := u.vain.IsRefused(423, "mutex_locked"); r.Int("waited_ms") < 3000 || r.Int("waited_ms") > 10_000 {
		t.Errorf("got %s, want 3s waited", r.Raw)
	}
	areFreed(t, u.silent, u.next, time.Second)
	u.keep.allGuard(t, "a clock has moved")
	refused(t, u.spent.calls(u.spentMutex, "acquire"), 409, "token_spent")
}

// holdIsBounded guards for as long as that is allowed, and fails unless that is
// until the age at which the ownerships have to end.
func holdIsBounded(t *testing.T, most time.Duration, gs ...grant) {
	t.Helper()
	for len(gs) > 0 {
		gs = slices.DeleteFunc(gs, func(g grant) bool {
			r := g.by.calls(g.mutex, "guard")
			age := time.Since(g.sent)
			if r.Status == 200 && age < most+5*time.Second {
				return false
			}
			refused(t, r, 409, "max_hold_reached")
			if age < most || age > most+5*time.Second {
				t.Errorf("%s ended at the age of %v, want %v", g.mutex, age, most)
			}
			return true
		})
		time.Sleep(10 * time.Millisecond)
	}
}

// Nodes had different clocks (lukas-krecan/ShedLock 132).
func TestT34ReplicasWithDifferentClocks(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{30 * time.Second, -30 * time.Second} {
		t.Run(fmt.Sprint(ahead), func(t *testing.T) {
			t.Parallel()
			c, _ := movable(t, ahead)
			c.at(0).isAhead(ahead)
			c.at(1).isAhead(0)
			for i := range 2 {
				tellsRelativeTimes(t, c, i)
			}
			exclude(t, c, sized(3*time.Second, 15*time.Second))
		})
	}
}

// tellsRelativeTimes fails unless both replicas tell the same of an ownership
// at one of them, and free it in time.
func tellsRelativeTimes(t *testing.T, c *cluster, at int) {
	s, other := c.at(at), c.at(1-at)
	mutex := fmt.Sprintf("deploy-%d", at)
	alice := s.party("alice")
	g := alice.Acquires(mutex, windows(time.Minute, 30*time.Second))
	time.Sleep(300 * time.Millisecond) // some age
	for _, from := range []*stage{s, other} {
		ageIsAbout(from, g, 250*time.Millisecond)
		isHolder(t, "state", from.state(mutex).Body["owner"], g, map[string]any{})
		isHolder(t, "423", from.party("bob").isLocked(mutex).Body["holder"], g, map[string]any{})
	}
	// A guard at the other replica makes that its home.
	moved := alice.on(other).Guards(mutex)
	for _, from := range []*stage{s, other} {
		ageIsAbout(from, g, 250*time.Millisecond)
		isHolder(t, "state, guarded elsewhere", from.state(mutex).Body["owner"], grant{
			Reply: g.Reply, by: g.by, mutex: mutex, fence: g.fence, sent: moved.sent, got: moved.got,
		}, map[string]any{})
	}

	silent := c.holder(fmt.Sprintf("silent-%d", at), time.Second, 500*time.Millisecond, at)
	next := other.party("next").Waits(silent.mutex, generous, long)
	areFreed(t, holders{silent}, []*poll{next}, time.Second)
}

// exclude has contenders at all replicas race for a mutex for a while, and
// fails when two of them own it in the same moment.
func exclude(t *testing.T, c *cluster, lasts time.Duration) {
	t.Helper()
	var owners, grants, fence atomic.Int64
	var wg sync.WaitGroup
	ctx, stop := context.WithTimeout(t.Context(), lasts)
	defer stop()
	for i := range 3 * len(c.Replicas) {
		wg.Go(func() {
			client := c.Client(i % len(c.Replicas))
			for n := 0; ctx.Err() == nil; n++ {
				body := map[string]any{"token": fmt.Sprintf("token-of-racer-%d-%06d", i, n), "wait_ms": 10_000 * (i % 2)}
				r, err := client.Call(t.Context(), "POST", "/v1/mutexes/raced/acquire", body)
				if err != nil || r.Status != 200 && r.Status != 423 {
					t.Errorf("racer %d: %s %s", i, what(r, err), r.Raw)
					return
				}
				if r.Status != 200 {
					continue
				}
				if n := owners.Add(1); n != 1 {
					t.Errorf("%d own at the same time", n)
				}
				if last := fence.Swap(r.Int("fencing_token")); r.Int("fencing_token") <= last {
					t.Errorf("got fencing token %d after %d", r.Int("fencing_token"), last)
				}
				grants.Add(1)
				owners.Add(-1)
				if err := status(client, "POST", "/v1/mutexes/raced/release", map[string]any{"token": body["token"]}, 200); err != nil {
					t.Errorf("racer %d releases: %v", i, err)
					return
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d ownerships, one at a time", grants.Load())
	if grants.Load() == 0 {
		t.Error("nobody ever owned")
	}
}
