package e2e_test

import (
	"testing"
	"time"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// A replica finds etcd again within a second or two, however long it was away:
// gRPC's own pauses between two tries would have grown to ten seconds by now.
func TestEtcdIsFoundAgainAtOnce(t *testing.T) {
	t.Parallel()
	const away, soon = 18 * time.Second, 2500 * time.Millisecond
	c := harness.StartCluster(t, harness.ClusterConfig{Replicas: 1, Members: 1})
	c.Etcd.Members[0].Kill()
	time.Sleep(away)
	c.RestartMember(0)
	c.AwaitEtcd()
	begin := time.Now()
	c.AwaitReplicas()
	if took := time.Since(begin); took > soon {
		t.Errorf("ready %v after etcd, want %v at most", took, soon)
	}
}
