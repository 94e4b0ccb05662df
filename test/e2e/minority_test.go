package e2e_test

import (
	"fmt"
	"testing"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// One member of three behind a black hole is no outage: as soon as the other
// two have a leader, no call fails, whichever member it would have gone to.
func TestOneSilentMemberIsNotMissed(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, harness.ClusterConfig{Replicas: 2, Members: 3, Flags: []string{"--etcd-timeout=2s"}})
	for round := range 5 {
		c.CutOffMember(c.Etcd.Leader())
		c.AwaitEtcd()
		c.AwaitReplicas()
		for replica := range c.Replicas {
			for i := range 6 {
				mutex := fmt.Sprintf("/v1/mutexes/m-%d-%d-%d", round, replica, i)
				who := map[string]any{"contender_id": "alice", "token": "alices-secret-01"}
				c.Client(replica).Must(t, "POST", mutex+"/acquire", who).Want(t, 200)
				c.Client(1-replica).Must(t, "POST", mutex+"/guard", who).Want(t, 200)
				if r := c.Client(replica).Must(t, "POST", mutex+"/release", who).Want(t, 200); r.Body["released"] != true {
					t.Errorf("got %s, want it released by this call", r.Raw)
				}
			}
		}
		c.Heal()
		c.AwaitEtcd()
	}
}
