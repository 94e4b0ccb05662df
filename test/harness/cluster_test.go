package harness_test

import (
	"testing"
	"time"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// smallCluster is one that survives the loss of one of each.
func smallCluster(t *testing.T) *harness.Cluster {
	t.Helper()
	return harness.StartCluster(t, harness.ClusterConfig{Replicas: 2, Members: 3, Flags: []string{"--etcd-timeout=1s"}})
}

func acquires(t *testing.T, c *harness.Client, mutex string) harness.Reply {
	t.Helper()
	return c.Must(t, "POST", "/v1/mutexes/"+mutex+"/acquire", map[string]any{"ttl_ms": 60_000})
}

func TestClusterServes(t *testing.T) {
	t.Parallel()
	c := smallCluster(t)
	one, two := c.Client(0), c.Client(1)
	got := acquires(t, one, "deploy").Want(t, 200)
	seen := two.Must(t, "GET", "/v1/mutexes/deploy", nil).Want(t, 200)
	t.Log(got.Raw, seen.Raw)
	acquires(t, two, "deploy").Want(t, 423)
}

func TestClusterCutsOffALeader(t *testing.T) {
	t.Parallel()
	c := smallCluster(t)
	old := c.Etcd.Leader()
	begin := time.Now()
	c.CutOffMember(old)
	c.AwaitEtcd()
	t.Log("new leader after", time.Since(begin))
	if got := c.Etcd.Leader(); got == old {
		t.Fatalf("got leader %d, which is cut off", got)
	}
	c.AwaitReplicas()
	t.Log("ready after", time.Since(begin))
	acquires(t, c.Client(0), "deploy").Want(t, 200)
	c.Heal()
	c.AwaitEtcd()
	t.Log("healed after", time.Since(begin))
}
