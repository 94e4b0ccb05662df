package torture_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// After polls, cut connections and outages, replicas use as much of the
// machine as before.
func TestP6NothingIsLeftBehind(t *testing.T) {
	t.Parallel()
	c := openCluster(t, 2, 3, impatient)
	// The first round brings caches, threads and connections that stay.
	turmoil(c, 0)
	var before []harness.Footprint
	for i := range c.Replicas {
		before = append(before, c.settled(i, harness.Footprint{}))
	}
	for round := range sized(2, 12) {
		turmoil(c, round+1)
	}
	for i := range c.Replicas {
		t.Logf("replica %d: %+v, at first %+v", i, c.settled(i, before[i]), before[i])
	}
	// A replica that has been through nothing tells how many goroutines there
	// have to be.
	twin := harness.Start(t, "--etcd="+c.Etcd.Endpoints())
	stageOf(t, twin).party("alice").Acquires("other")
	want, _ := twin.Dump()
	for i, r := range c.Replicas {
		if got, doing := r.Dump(); got > want+20 {
			t.Errorf("replica %d: got %d goroutines, want about %d: %s", i, got, want, doing)
		}
	}
}

// settled waits until a replica has hardly more open connections, threads and
// memory than before. Without a before, it waits for the connections alone.
func (c *cluster) settled(replica int, before harness.Footprint) harness.Footprint {
	c.t.Helper()
	// Its listener, and two connections to each member.
	most := harness.Footprint{Sockets: 2*len(c.Etcd.Members) + 4, Threads: math.MaxInt, RSS: math.MaxInt64}
	if before.RSS > 0 {
		most = harness.Footprint{Sockets: before.Sockets + 4, Threads: before.Threads + 10, RSS: before.RSS + before.RSS/4 + 16<<20}
	}
	var now harness.Footprint
	for end := time.Now().Add(generous); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		now = c.Replicas[replica].Footprint()
		if now.Sockets <= most.Sockets && now.Threads <= most.Threads && now.RSS <= most.RSS {
			return now
		}
	}
	c.t.Errorf("replica %d: got %+v, want %+v at most", replica, now, most)
	return now
}

// polls is how many wait at each replica.
const polls = 40

// turmoil has many wait, whose connections are cut, and an outage of etcd
// under others. In the end nobody owns, and nobody is in line.
func turmoil(c *cluster, round int) {
	c.t.Helper()
	mutex := fmt.Sprintf("deploy-%d", round)
	alice := c.party("alice", 0).via(c.ToReplica(0))
	alice.Acquires(mutex, long)

	cut := c.waits(mutex, "cut", generous)
	for i := range c.Replicas {
		c.ToReplica(i).Cut()
	}
	for _, w := range cut {
		<-w.done
	}
	c.Heal()
	c.at(0).eventually("the cut are out of the line", func() bool { return c.at(0).waiters(mutex) == 0 })

	struck := c.waits(mutex, "struck", 2*time.Second)
	back := frozen(c.Etcd, twoOf(c.Etcd, true)...)
	for _, w := range struck[:polls] {
		w.hang()
	}
	for _, w := range struck {
		<-w.done
	}
	back()
	c.AwaitEtcd()
	c.AwaitReplicas()
	for _, w := range append(cut, struck...) {
		w.p.calls(mutex, "release") // else their places stay for 10 s
	}
	c.at(0).becomesEmpty(mutex)
	alice.Releases(mutex)
	c.at(1).isIdle(mutex)
	for i := range c.Replicas {
		c.ToReplica(i).Reset()
	}
}

// waits has many wait, half of them at each replica.
func (c *cluster) waits(mutex, what string, patience time.Duration) (all []*poll) {
	c.t.Helper()
	for i := range 2 * polls {
		p := c.party(fmt.Sprintf("%s-%d", what, i), i%2).via(c.ToReplica(i % 2))
		all = append(all, p.Asks(mutex, patience, long))
	}
	c.at(0).eventually("all wait", func() bool { return c.at(1).waiters(mutex) == 2*polls })
	return all
}
