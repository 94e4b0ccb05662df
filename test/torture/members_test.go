package torture_test

import (
	"fmt"
	"testing"
	"time"
)

// One of three servers died, and all locks were gone (hashicorp/consul 1290).
func TestT13MembersDieInTurn(t *testing.T) {
	t.Parallel()
	c := openCluster(t, 2, 3)
	var all holders
	for i := range sized(20, 100) {
		all = append(all, c.keeper(fmt.Sprintf("holder-%d", i), 10*time.Second, 0, i%2, (i+1)%2))
	}
	for range sized(1, 3) {
		leader := c.Etcd.Leader()
		for i := range c.Etcd.Members {
			member := (leader + i) % len(c.Etcd.Members)
			c.Etcd.Members[member].Kill()
			all.allGuard(t, fmt.Sprintf("member %d is dead, the leader was %d", member, leader))
			c.restartMember(member)
		}
	}
	// What was lost without a word shows when every window is over.
	time.Sleep(sized(0, 10*time.Second))
	all.allGuard(t, "all are back")
}

// A leader that stalled ended what was being renewed (etcd-io/etcd 15247).
func TestT30LeaderStalls(t *testing.T) {
	t.Parallel()
	const ttl, stall = 3 * time.Second, 5 * time.Second
	c := openCluster(t, 2, 3)
	var all holders
	for i := range sized(8, 24) {
		one, other := i%2, (i+1)%2
		transition := time.Duration(i/2%2) * ttl // without one, W is over in the stall
		all = append(all,
			c.keeper(fmt.Sprintf("bound-%d", i), ttl, transition, one),
			c.keeper(fmt.Sprintf("free-%d", i), ttl, transition, one, other))
	}
	all.allGuard(t, "at the start")
	for range sized(1, 5) {
		leader := c.Etcd.Members[c.Etcd.Leader()]
		leader.Pause()
		time.Sleep(stall)
		leader.Resume()
		all.allGuard(t, "the leader was stopped for 5s")
		c.AwaitEtcd()
	}
	// The last one that could have been ended in the meantime.
	time.Sleep(sized(0, 2*ttl))
	all.allGuard(t, "afterwards")
}
