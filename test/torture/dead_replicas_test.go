package torture_test

import (
	"fmt"
	"testing"
	"time"
)

// A replica dies together with the owners that it answered: they are freed,
// not before W, and not later than 5 s after. Owners that go on at another
// replica lose nothing.
func TestP4ReplicaDiesWithItsHolders(t *testing.T) {
	t.Parallel()
	c := openCluster(t, 3, sized(1, 3))
	for round := range sized(1, 6) {
		replicaDies(c, round)
	}
}

func replicaDies(c *cluster, round int) {
	t := c.t
	dies := round % 3
	var move, silent holders
	for i := range sized(9, 30) {
		move = append(move, c.keeper(fmt.Sprintf("moves-%d-%d", round, i), 2*time.Second, time.Second, dies, (dies+1+i%2)%3))
	}
	move.allGuard(t, "before")
	var next []*poll
	// The first W is over before a replica can count as dead.
	for i, w := range []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second} {
		h := c.keeper(fmt.Sprintf("dies-%d-%d", round, i), w/2, w/2, dies)
		waiter := c.party(fmt.Sprintf("next-%d-%d", round, i), (dies+1+i%2)%3)
		silent, next = append(silent, h), append(next, waiter.joins(h.mutex, 45*time.Second, long))
	}
	for _, h := range silent {
		h.stops()
	}
	silent.guardOnce(t)
	c.Replicas[dies].Kill()
	silent.lost(t, "before")
	areFreed(t, silent, next, 5*time.Second)
	move.allGuard(t, "their replica is dead")
	c.restartReplica(dies)
}
