package torture_test

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// Etcd was slow: the lease was lost, then came a panic, then a storm of
// restarts (kube-vip/kube-vip 282).
func TestT32SlowEtcd(t *testing.T) {
	t.Parallel()
	const ttl, latency = 10 * time.Second, 2 * time.Second
	lasts := sized(15*time.Second, 60*time.Second)
	c := openCluster(t, 2, 3)
	pids := c.pids()
	var all, silent holders
	var next []*poll
	for i := range sized(6, 30) {
		one, other := i%2, (i+1)%2
		all = append(all,
			c.keeper(fmt.Sprintf("bound-%d", i), ttl, 0, one),
			c.keeper(fmt.Sprintf("free-%d", i), ttl, 0, one, other))
	}
	for i := range 4 { // whose waiters are at the same replica, and at the other
		h := c.holder(fmt.Sprintf("silent-%d", i), ttl, 0, i%2)
		next = append(next, c.party(fmt.Sprintf("next-%d", i), i/2).joins(h.mutex, 45*time.Second, long))
		silent = append(silent, h)
	}
	for _, h := range silent {
		h.guards(t.Context())
	}
	begin := time.Now()
	c.slowEtcd(latency)

	// One who comes while it is slow is served, too, and freed in time.
	late := c.holder("late", ttl, 0, 0)
	silent, next = append(silent, late), append(next, c.party("next-late", 1).Asks(late.mutex, 45*time.Second, long))

	// As soon as after the death of a replica, and a call to etcd.
	areFreed(t, silent, next, 5*time.Second+latency)
	time.Sleep(time.Until(begin.Add(lasts)))
	all.allGuard(t, "after a while of latency")
	c.Heal()
	all.allGuard(t, "healed")
	if got := c.pids(); !slices.Equal(got, pids) {
		t.Errorf("got processes %v, want %v as at the start", got, pids)
	}
	for i, r := range c.Replicas {
		if r.Ended() {
			t.Errorf("replica %d has ended", i)
		}
	}
}

// slowEtcd adds so much to every call of a replica to etcd.
func (c *cluster) slowEtcd(latency time.Duration) {
	for i := range c.Replicas {
		for j := range c.Etcd.Members {
			c.ToMember(i, j).Delay(latency / 2)
		}
	}
}

func (c *cluster) pids() []int {
	var pids []int
	for _, r := range c.Replicas {
		pids = append(pids, r.PID())
	}
	return pids
}

// areFreed fails unless each mutex of a holder that went silent comes to the
// one who waits for it: never before W, and not later than W and so much.
func areFreed(t *testing.T, silent holders, next []*poll, bound time.Duration) {
	t.Helper()
	var late []time.Duration
	for i, h := range silent {
		owned := next[i].Owns()
		sent, got := h.guarded()
		if took := owned.got.Sub(sent); took < h.window() {
			t.Errorf("%s: freed %v after its last guard, want %v at least", h.name, took, h.window())
		}
		late = append(late, owned.got.Sub(got)-h.window())
	}
	seldomLate(t, "freed after W by", bound, late)
}
