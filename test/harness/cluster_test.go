package harness_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// smallCluster survives the loss of one of each.
var smallCluster = harness.ClusterConfig{Replicas: 2, Members: 3, Flags: []string{"--etcd-timeout=1s"}}

// acquires asks with a token of the client's own, so that to ask again is the
// same call.
func acquires(t *testing.T, c *harness.Client, mutex string) harness.Reply {
	t.Helper()
	body := map[string]any{"ttl_ms": 60_000, "token": fmt.Sprintf("token-of-%p", c)}
	return c.Must(t, "POST", "/v1/mutexes/"+mutex+"/acquire", body)
}

// soon is what a replica answers to an acquire when it has stopped to say that
// etcd is out of reach. A member that fell silent may cost it a request.
func soon(t *testing.T, c *harness.Client, mutex string) (got harness.Reply) {
	t.Helper()
	eventually(t, "it reaches etcd", func() bool {
		got = acquires(t, c, mutex)
		return got.Status != 503
	})
	return got
}

// put writes a key through the members that are not cut off.
func put(t *testing.T, c *harness.Cluster, key string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	leader := direct(t, c.Etcd.Members[c.Etcd.Leader()])
	if _, err := leader.Put(ctx, key, "v"); err != nil {
		t.Fatalf("put %s: %v", key, err)
	}
}

// direct returns a client of one member.
func direct(t *testing.T, m *harness.Member) *clientv3.Client {
	t.Helper()
	cli, err := clientv3.New(clientv3.Config{Endpoints: []string{m.Addr}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cli.Close() })
	return cli
}

// has reports whether the key has come to a member, whatever the others know.
func has(t *testing.T, m *harness.Member, key string) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	got, err := direct(t, m).Get(ctx, key, clientv3.WithSerializable())
	if err != nil {
		t.Fatalf("get %s: %v", key, err)
	}
	return got.Count == 1
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not so: %s", what)
		}
	}
}

func TestClusterServes(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, smallCluster)
	one, two := c.Client(0), c.Client(1)
	acquires(t, one, "deploy").Want(t, 200)
	acquires(t, two, "deploy").Want(t, 423)
	c.ToReplica(1).Cut()
	if got, err := c.Client(1).Call(t.Context(), "GET", "/readyz", nil); err == nil {
		t.Errorf("got %s through a link that is cut", got.Raw)
	}
	acquires(t, one, "other").Want(t, 200)
	c.Heal()
	acquires(t, two, "other").Want(t, 423)
}

func TestClusterCutsOffTheLeader(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, smallCluster)
	one, two := c.Client(0), c.Client(1)
	old := c.Etcd.Leader()
	c.CutOffMember(old)
	c.AwaitEtcd()
	if got := c.Etcd.Leader(); got == old {
		t.Fatalf("got leader %d, which is cut off", got)
	}
	put(t, c, "k")
	soon(t, one, "deploy").Want(t, 200)
	soon(t, two, "deploy").Want(t, 423)
	if has(t, c.Etcd.Members[old], "k") {
		t.Error("a member that is cut off has what was written meanwhile")
	}
	c.Heal()
	c.AwaitEtcd()
	eventually(t, "it catches up", func() bool { return has(t, c.Etcd.Members[old], "k") })
}

func TestClusterPartsTwoMembers(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, harness.ClusterConfig{Members: 3})
	leader := c.Etcd.Leader()
	parted, other := (leader+1)%3, (leader+2)%3
	c.Between(leader, parted).Hold()
	c.Between(parted, leader).Hold()
	put(t, c, "k")
	eventually(t, "the other one has it", func() bool { return has(t, c.Etcd.Members[other], "k") })
	if has(t, c.Etcd.Members[parted], "k") {
		t.Error("a member that is parted from the leader has what was written meanwhile")
	}
	c.Heal()
	eventually(t, "it catches up", func() bool { return has(t, c.Etcd.Members[parted], "k") })
}

func TestClusterCutsOffAReplica(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, smallCluster)
	one, two := c.Client(0), c.Client(1)
	c.CutOffReplica(0)
	acquires(t, one, "deploy").Want(t, 503)
	acquires(t, two, "other").Want(t, 200)
	c.Heal()
	c.AwaitReplicas()
	soon(t, one, "other").Want(t, 423)
}

func TestClusterComesBack(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, smallCluster)
	one, two := c.Client(0), c.Client(1)
	first := acquires(t, one, "deploy").Want(t, 200)
	dead := c.Etcd.Leader()
	c.Etcd.Members[dead].Kill()
	c.Replicas[0].Kill()
	c.Replicas[1].Terminate()
	c.AwaitEtcd()
	c.RestartReplica(0)
	again := soon(t, one, "deploy").Want(t, 200)
	if got, want := again.Int("fencing_token"), first.Int("fencing_token"); got != want {
		t.Errorf("got fencing token %d, want %d as before", got, want)
	}
	c.RestartMember(dead)
	c.StartReplica(1)
	c.AwaitEtcd()
	c.AwaitReplicas()
	soon(t, two, "deploy").Want(t, 423)
	put(t, c, "k")
	eventually(t, "the member has what is written now", func() bool { return has(t, c.Etcd.Members[dead], "k") })
}

func TestClusterOfOtherPrograms(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(harness.Program(t))
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, text, 0o700); err != nil {
		t.Fatal(err)
	}
	c := harness.StartCluster(t, harness.ClusterConfig{
		Replicas: 2, Members: 1, Programs: []string{"", other},
		Env: func(replica int) []string { return []string{fmt.Sprintf("HOLDFAST_DEFAULT_TTL=%ds", 20+replica)} },
	})
	c.Replicas[1].Kill()
	c.RestartReplica(1)
	for i, program := range []string{harness.Program(t), other} {
		mutex := fmt.Sprintf("/v1/mutexes/deploy-%d/acquire", i)
		got := c.Client(i).Must(t, "POST", mutex, nil).Want(t, 200).Int("ttl_ms")
		if got != int64(20_000+1000*i) {
			t.Errorf("got ttl %d of replica %d, want that of its environment", got, i)
		}
		if got, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", c.Replicas[i].PID())); err == nil && got != program {
			t.Errorf("got program %s of replica %d, want %s", got, i, program)
		}
	}
}

// It is not parallel: whatever it leaves behind is in a directory of its own.
func TestClusterLeavesNothing(t *testing.T) {
	harness.Program(t) // elsewhere, for all tests
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	var pids []int
	t.Run("its life", func(t *testing.T) {
		c := harness.StartCluster(t, smallCluster)
		pids = append(pids, c.Replicas[0].PID(), c.Replicas[1].PID())
		c.Replicas[0].Kill()
		c.RestartReplica(0)
		c.Etcd.Members[1].Kill()
		c.RestartMember(1)
		c.Etcd.Members[0].Pause()
		c.CutOffReplica(1)
		for _, m := range c.Etcd.Members {
			pids = append(pids, m.PID())
		}
		pids = append(pids, c.Replicas[0].PID())
	})
	for _, pid := range pids {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d: got %v, want that it is gone", pid, err)
		}
	}
	left, err := os.ReadDir(tmp)
	if err != nil || len(left) > 0 {
		t.Errorf("got %v, %v left, want nothing", left, err)
	}
}
