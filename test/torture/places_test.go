package torture_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// The order is that of joining, whatever replica each waiter is at.
func TestP5OrderAcrossReplicas(t *testing.T) {
	t.Parallel()
	const waiters = 20
	c := openCluster(t, 3, sized(1, 3))
	for round := range sized(1, 5) {
		mutex := fmt.Sprintf("deploy-%d", round)
		alice := c.party("alice", round%3)
		before := alice.Acquires(mutex, long)
		var polls []*poll
		var order []string
		for i := range waiters {
			p := c.party(fmt.Sprintf("waiter-%02d", i), i%3)
			polls, order = append(polls, p.joins(mutex, wait, long)), append(order, p.name)
			if got := p.s.present(mutex); !slices.Equal(got, order) {
				t.Fatalf("got the line %v, want %v", got, order)
			}
		}
		c.shows(mutex, order...)
		alice.on(c.at((round + 1) % 3)).Releases(mutex)
		for i, w := range polls {
			g := w.Owns()
			if g.fence <= before.fence {
				t.Errorf("waiter %d: got fencing token %d after %d", i, g.fence, before.fence)
			}
			if i+1 < waiters && polls[i+1].ended() {
				t.Errorf("waiter %d was served before the one ahead has released", i+1)
			}
			g.releases()
			before = g
		}
		c.at(0).isIdle(mutex)
	}
}

// Whoever does not wait does not pass those who do, at whatever replica.
func TestP5NobodyBargesAcrossReplicas(t *testing.T) {
	t.Parallel()
	c := openCluster(t, 3, 1)
	for round := range sized(12, 60) {
		mutex := fmt.Sprintf("deploy-%d", round)
		alice, bob := c.party("alice", round%3), c.party("bob", (round+1)%3)
		// Every third time the mutex is freed by its end.
		lasts := long
		if round%3 == 2 {
			lasts = windows(time.Second, 0)
		}
		alice.Acquires(mutex, lasts)
		next := bob.joins(mutex, generous, long)
		ctx, stop := context.WithCancel(t.Context())
		barged := make(chan string, len(c.Replicas))
		for i := range c.Replicas {
			go func() { barged <- barges(ctx, c.Client(i), mutex, fmt.Sprintf("barger-%d", i)) }()
		}
		if round%3 != 2 {
			time.Sleep(20 * time.Millisecond) // they are at it
			alice.Releases(mutex)
		}
		next.Owns()
		stop()
		for range c.Replicas {
			if why := <-barged; why != "" {
				t.Errorf("round %d: %s", round, why)
			}
		}
		bob.Releases(mutex)
	}
}

// barges tries to own without waiting, again and again, and says so when it
// did, or when it was told something else than that it cannot.
func barges(ctx context.Context, client *harness.Client, mutex, name string) string {
	body := with{"contender_id": name, "token": "token-of-" + name + "-0000"}
	for ctx.Err() == nil {
		r, err := client.Call(ctx, "POST", "/v1/mutexes/"+mutex+"/acquire", body)
		if ctx.Err() == nil && (err != nil || r.Status != 423) {
			return fmt.Sprintf("%s: %s %s", name, what(r, err), r.Raw)
		}
	}
	return ""
}

// A place moves with its contender to another replica.
func TestP7PlaceMovesToAnotherReplica(t *testing.T) {
	t.Parallel()
	c := openCluster(t, 3, 1)
	for name, m := range map[string]move{
		"cut":        {patience: wait, leave: func(link *harness.Proxy) { link.Cut() }, noticed: true},
		"over":       {patience: time.Second, leave: func(*harness.Proxy) {}, noticed: true},
		"open":       {patience: wait, leave: func(*harness.Proxy) {}, superseded: true},
		"black-hole": {patience: wait, leave: func(link *harness.Proxy) { link.Hold() }},
	} {
		t.Run(name, func(t *testing.T) {
			placeMoves(&cluster{Cluster: c.Cluster, t: t}, name, m)
		})
	}
}

// wait is how long those wait who get their turn in the end.
const wait = 45 * time.Second

// move is how a poll ends at one replica before it begins at another.
type move struct {
	patience   time.Duration
	leave      func(link *harness.Proxy)
	noticed    bool // the replica knows before the next poll
	superseded bool // the client is told of it by that
}

func placeMoves(c *cluster, mutex string, m move) {
	alice, bob := c.party("alice", 0), c.party("bob", 0)
	sees := c.at(2)
	alice.Acquires(mutex, long)
	link := harness.NewProxy(c.t, c.Replicas[0].Addr())
	first := bob.via(link).joins(mutex, m.patience, long)
	carols := c.party("carol", 1).joins(mutex, wait, long)
	daves := c.party("dave", 2).joins(mutex, wait, long)
	m.leave(link)
	if m.noticed {
		sees.eventually("bob is away", func() bool { return slices.Equal(sees.present(mutex), []string{"carol", "dave"}) })
	}

	before := sees.state(mutex).Int("revision")
	again := bob.on(c.at(1)).Asks(mutex, wait, long)
	sees.eventually("the next poll is in", func() bool { return sees.state(mutex).Int("revision") > before })
	c.shows(mutex, "bob", "carol", "dave")
	if m.superseded {
		first.IsRefused(409, "superseded")
	}
	erins := c.party("erin", 0).joins(mutex, wait, long)
	c.shows(mutex, "bob", "carol", "dave", "erin")
	alice.Releases(mutex)
	for _, w := range []*poll{again, carols, daves, erins} {
		w.Owns().releases()
	}
	sees.isIdle(mutex)
}

// Those at a replica that dies are out of the line soon, and whoever of them
// comes again within 10 s, at another one, is where he was.
func TestP7PlacesOfADeadReplica(t *testing.T) {
	t.Parallel()
	const gone = 5 * time.Second
	c := openCluster(t, 3, sized(1, 3))
	var times []time.Duration
	for round := range sized(1, 6) {
		dies := round % 3
		times = append(times, placesOfDead(c, fmt.Sprintf("deploy-%d", round), dies, (dies+1)%3, (dies+2)%3))
		c.restartReplica(dies)
	}
	seldomLate(t, "out of the line", gone, times)
}

func placesOfDead(c *cluster, mutex string, dies, lives, other int) (took time.Duration) {
	c.t.Helper()
	alice, sees := c.party("alice", lives), c.at(lives)
	alice.Acquires(mutex, long)
	c.party("ann", dies).joins(mutex, wait, long)
	c.party("bob", dies).joins(mutex, wait, long)
	carols := c.party("carol", lives).joins(mutex, wait, long)
	c.party("dave", dies).joins(mutex, wait, long)
	erins := c.party("erin", other).joins(mutex, wait, long)

	killed := time.Now()
	c.Replicas[dies].Kill()
	bobs := c.party("bob", other).joins(mutex, wait, long) // at once
	sees.eventually("the dead one's waiters are out of the line", func() bool {
		return slices.Equal(sees.present(mutex), []string{"bob", "carol", "erin"}) && sees.waiters(mutex) == 3
	})
	took = time.Since(killed)
	franks := c.party("frank", lives).joins(mutex, wait, long)
	// Those behind get their turn meanwhile, and a place is kept for 10 s.
	alice.Releases(mutex)
	bob := bobs.Owns()
	time.Sleep(time.Until(killed.Add(8 * time.Second)))
	anns := c.party("ann", lives).joins(mutex, wait, long)
	daves := c.party("dave", other).joins(mutex, wait, long)
	c.shows(mutex, "ann", "carol", "dave", "erin", "frank")
	bob.releases()
	for _, w := range []*poll{anns, carols, daves, erins, franks} {
		w.Owns().releases()
	}
	sees.isIdle(mutex)
	return took
}
