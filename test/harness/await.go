package harness

import (
	"context"
	"time"
)

// AwaitEtcd returns when all members agree on a leader among them: those that
// run, are not paused and not cut off.
func (c *Cluster) AwaitEtcd() {
	c.t.Helper()
	c.until("etcd has no leader", func(ctx context.Context) bool {
		ids := make(map[uint64]bool)
		leaders := make(map[uint64]bool)
		for i, m := range c.Etcd.Members {
			if m.gone() || c.cutOff[i] {
				continue
			}
			status, err := c.eye.Status(ctx, m.Addr)
			if err != nil {
				return false
			}
			ids[status.Header.MemberId] = true
			leaders[status.Leader] = true
		}
		for leader := range leaders {
			return len(leaders) == 1 && ids[leader]
		}
		return false
	})
}

// AwaitReplicas returns when all replicas say that they are ready: those that
// run and are not paused. It asks them directly, not through their links.
func (c *Cluster) AwaitReplicas() {
	c.t.Helper()
	for i, r := range c.Replicas {
		direct := r.Client()
		c.until(r.name+" is not ready", func(ctx context.Context) bool {
			if c.Replicas[i].gone() {
				return true
			}
			got, err := direct.Call(ctx, "GET", "/readyz", nil)
			return err == nil && got.Status == 200
		})
		direct.http.CloseIdleConnections()
	}
}

// until asks again and again, each time for two seconds at most, and fails the
// test when the answer is no for too long.
func (c *Cluster) until(problem string, ask func(ctx context.Context) bool) {
	c.t.Helper()
	for end := time.Now().Add(startTimeout); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		yes := ask(ctx)
		cancel()
		if yes {
			return
		}
	}
	c.t.Fatalf("%s after %v", problem, startTimeout)
}
