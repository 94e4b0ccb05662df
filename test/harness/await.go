package harness

import (
	"context"
	"fmt"
	"time"
)

// AwaitEtcd returns when all members agree on a leader among them: all but
// those that the test paused, ended or cut off.
func (c *Cluster) AwaitEtcd() {
	c.t.Helper()
	c.until("etcd", func(ctx context.Context) error {
		ids, leaders := make(map[uint64]bool), make(map[uint64]bool)
		var leader uint64
		for i, m := range c.Etcd.Members {
			if m.gone() || c.cutOff[i] {
				continue
			}
			status, err := c.eye.Status(ctx, m.Addr)
			if err != nil {
				return fmt.Errorf("%s: %w", m.name, err)
			}
			leader = status.Leader
			ids[status.Header.MemberId], leaders[leader] = true, true
		}
		if len(leaders) != 1 || !ids[leader] {
			return fmt.Errorf("of members %v the leaders are %v", ids, leaders)
		}
		return nil
	})
}

// AwaitReplicas returns when all replicas say that they are ready: all but
// those that the test paused or ended. It asks them directly, not through their
// links.
func (c *Cluster) AwaitReplicas() {
	c.t.Helper()
	for _, r := range c.Replicas {
		if r.gone() {
			continue
		}
		direct := r.Client()
		c.until(r.name, func(ctx context.Context) error {
			if r.Ended() {
				c.t.Fatalf("%s: it has ended by itself", r.name)
			}
			got, err := direct.Call(ctx, "GET", "/readyz", nil)
			if err == nil && got.Status != 200 {
				err = fmt.Errorf("%d %s", got.Status, got.Raw)
			}
			return err
		})
		direct.http.CloseIdleConnections()
	}
}

// until looks again and again, each time for two seconds at most, until there
// is no error. It fails the test when that takes too long.
func (c *Cluster) until(what string, look func(ctx context.Context) error) {
	c.t.Helper()
	for end := time.Now().Add(startTimeout); ; time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		err := look(ctx)
		cancel()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			c.t.Fatalf("%s: not ready after %v: %v", what, startTimeout, err)
		}
	}
}
