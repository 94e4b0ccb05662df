package torture_test

import (
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// cluster is several replicas on several etcd members.
type cluster struct {
	*harness.Cluster
	t *testing.T
}

// up bounds what there is at the same time: two clusters, each of half a dozen
// processes, or four small ones.
var up = semaphore.NewWeighted(2 * whole)

// What a cluster is of up.
const (
	whole = 2
	small = 1 // members, and one replica
)

// takesTurn waits until another cluster may be started. Who has a turn has no
// parallel subtests: they would wait for tests that wait for a turn.
func takesTurn(t *testing.T, size int64) {
	t.Helper()
	if err := up.Acquire(t.Context(), size); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { up.Release(size) }) // after its processes have ended
}

// openCluster starts a cluster.
func openCluster(t *testing.T, replicas, members int, flags ...string) *cluster {
	t.Helper()
	return openClusterOf(t, harness.ClusterConfig{Replicas: replicas, Members: members, Flags: flags})
}

func openClusterOf(t *testing.T, cfg harness.ClusterConfig) *cluster {
	t.Helper()
	takesTurn(t, whole)
	return &cluster{Cluster: harness.StartCluster(t, cfg), t: t}
}

// at is the service as one of the replicas shows it, also after a restart.
func (c *cluster) at(replica int) *stage {
	return &stage{Replica: c.Replicas[replica], t: c.t, eye: c.Client(replica)}
}

// on is the same party at another replica, with connections of its own.
func (p *party) on(s *stage) *party {
	q := *p
	q.s, q.http = s, s.Client()
	return &q
}

// at is a party that talks to one of the replicas.
func (c *cluster) party(name string, replica int) *party { return c.at(replica).party(name) }

// joins begins to wait, and returns when the line shows it.
func (p *party) joins(mutex string, patience time.Duration, ws ...with) *poll {
	p.t.Helper()
	w := p.Asks(mutex, patience, ws...)
	p.s.eventually(p.name+" is in line", func() bool {
		return w.ended() || slices.Contains(p.s.present(mutex), p.name)
	})
	return w
}

// shows fails unless every replica shows this line; gone replicas show none.
func (c *cluster) shows(mutex string, want ...string) {
	c.t.Helper()
	for i, r := range c.Replicas {
		if r.Ended() {
			continue
		}
		if got := c.at(i).present(mutex); !slices.Equal(got, want) {
			c.t.Errorf("replica %d shows the line %v, want %v", i, got, want)
		}
	}
}

// restartReplica starts a replica again that was killed or terminated.
func (c *cluster) restartReplica(replica int) {
	c.t.Helper()
	c.RestartReplica(replica)
	c.AwaitReplicas()
}

// restartMember starts a member again that was killed or terminated, and waits
// until it has its part in the cluster.
func (c *cluster) restartMember(member int) {
	c.t.Helper()
	c.RestartMember(member)
	c.AwaitEtcd()
}

// theLeader returns the member that leads, everyMember all of them.
func (c *cluster) theLeader() []int { return []int{c.Etcd.Leader()} }

func (c *cluster) everyMember() []int { return []int{0, 1, 2} }
