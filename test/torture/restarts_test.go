package torture_test

import (
	"fmt"
	"testing"
	"time"
)

// A blip of the server that had made a session lost it (hashicorp/consul
// 20424).
func TestT14ReplicasRestart(t *testing.T) {
	t.Parallel()
	c := openCluster(t, 2, 1)
	var all holders
	for i := range sized(20, 60) {
		all = append(all, c.keeper(fmt.Sprintf("holder-%d", i), 3*time.Second, 0, i%2, (i+1)%2))
	}
	// Whoever knows one replica alone has to bear that it is away for a while.
	for i := range 4 {
		all = append(all, c.keeper(fmt.Sprintf("bound-%d", i), 9*time.Second, 6*time.Second, i%2))
	}
	for range sized(1, 4) {
		for i := range c.Replicas {
			c.Replicas[i].Terminate()
			c.restartReplica(i)
			all.allGuard(t, fmt.Sprintf("replica %d was terminated", i))
			c.Replicas[i].Kill()
			c.restartReplica(i)
			all.allGuard(t, fmt.Sprintf("replica %d was killed", i))
		}
	}
}

// Nothing told an older ownership from a newer one, after whatever happened to
// a part of the service (lukas-krecan/ShedLock 2201).
func TestT55FencingTokensGrowOverClusters(t *testing.T) {
	t.Parallel()
	c := openCluster(t, 2, 3)
	f := &fences{c: c, p: c.party("alice", 0)}
	f.last = f.p.Acquires("deploy", long)
	f.handOvers()
	f.restartsOfReplicas()
	f.restartsOfMembers()
}

// fences follows a mutex from ownership to ownership, each of a new token, now
// at the one replica and now at the other.
type fences struct {
	c    *cluster
	p    *party // who owns
	last grant
}

func (f *fences) grows(after string, g grant) {
	f.c.t.Helper()
	if g.fence <= f.last.fence || g.fence >= 1<<53 {
		f.c.t.Errorf("after %s: got fencing token %d after %d, want a larger one below 2^53", after, g.fence, f.last.fence)
	}
	f.last = g
}

// changes has the owner guard and release after something happened, and
// somebody else acquire at the other replica.
func (f *fences) changes(after string) {
	f.c.t.Helper()
	f.p.guardsSoon("deploy", f.last.fence)
	f.p.Releases("deploy")
	f.p = f.other()
	f.grows(after, f.p.Acquires("deploy", long))
}

// other is the next party, at the other replica.
func (f *fences) other() *party {
	q := f.p.anew()
	for i := range f.c.Replicas {
		if s := f.c.at(i); s.Addr() != f.p.s.Addr() {
			return q.on(s)
		}
	}
	return q
}

func (f *fences) handOvers() {
	t := f.c.t
	t.Helper()
	f.changes("a release")
	next := f.other()
	w := next.Waits("deploy", generous, windows(300*time.Millisecond, 0))
	f.p.Releases("deploy")
	f.p = next
	f.grows("a hand-over", w.Owns())

	next = f.other()
	w = next.Waits("deploy", generous, windows(300*time.Millisecond, 0))
	f.p = next
	f.grows("an expiry with a waiter", w.Owns())
	f.p = f.other()
	g, _ := f.p.acquiresSoon("deploy", long)
	f.grows("an expiry", g)

	f.p.s.eye.Must(t, "DELETE", fmt.Sprintf("/v1/mutexes/deploy/owner?fencing_token=%d&reason=x", g.fence), nil).Want(t, 200)
	f.p = f.other()
	f.grows("a break", f.p.Acquires("deploy", long))
}

func (f *fences) restartsOfReplicas() {
	for i, r := range f.c.Replicas {
		r.Kill()
		f.c.restartReplica(i)
		f.changes(fmt.Sprintf("a restart of replica %d", i))
	}
	for _, r := range f.c.Replicas {
		r.Terminate()
	}
	for i := range f.c.Replicas {
		f.c.restartReplica(i)
	}
	f.changes("a restart of all replicas")
}

func (f *fences) restartsOfMembers() {
	for i := range sized(1, len(f.c.Etcd.Members)) {
		f.c.Etcd.Members[i].Terminate()
		f.c.restartMember(i)
		f.changes(fmt.Sprintf("a restart of member %d", i))
	}
	leader := f.c.Etcd.Leader()
	f.c.Etcd.Members[leader].Kill()
	f.c.AwaitEtcd()
	f.changes("a change of leader")
	f.c.restartMember(leader)

	for _, m := range f.c.Etcd.Members {
		m.Kill()
	}
	for i := range f.c.Etcd.Members {
		f.c.RestartMember(i)
	}
	f.c.AwaitEtcd()
	f.changes("a restart of all members")
}
