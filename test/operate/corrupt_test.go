package operate_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// One of three members is corrupt. It is found and replaced as the page says,
// and a replica that was restarted meanwhile goes on by itself.
func TestCorruptMember(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	one, two := c.startReplica(t), c.startReplica(t)
	alice := on(t, one, "alice").Keeps("deploy", windows(2*time.Second, time.Second), two)
	healthy := "http://etcd-1:2379,http://etcd-2:2379"
	all := strings.NewReplacer(healthy+",http://etcd-3:2379", c.urls(0, 1, 2)).Replace(typed(t, exporting))

	raise(t, c, 2)
	two.Kill()
	two = two.Again()
	readsOn(t, two, "alice", "corrupt cluster")
	// Longer than W; and etcd takes no member before the others have known each
	// other for five seconds.
	for began := time.Now(); time.Since(began) < 6*time.Second; time.Sleep(100 * time.Millisecond) {
		if got := on(t, two, "reader").state("deploy"); ownerOf(got) != "alice" {
			t.Fatalf("after %v got %s, want alice to own", time.Since(began), got.Raw)
		}
	}
	c.findsIn(t, bash(t, all+typed(t, findingCorrupt), t.TempDir()), 2)

	c.Members[2].Kill()
	wiped(t, c.settings[2]["data-dir"].(string))
	bash(t, typed(t, replacingCorrupt,
		healthy, c.urls(0, 1),
		"http://$bad:2380", c.settings[2]["initial-advertise-peer-urls"].(string)), t.TempDir())
	c.rejoins(t, 2)
	client := c.Client()
	eventually(t, "the member has caught up", func() bool { return c.status(t, client, 2).RaftAppliedIndex >= c.status(t, client, 0).RaftAppliedIndex })
	bash(t, all+typed(t, disarming), t.TempDir())

	alice.owns(t)
	alice.stops()
	alice.p.at(t, two).Releases("deploy")
	on(t, two, "bob").Acquires("deploy", nil)
	bash(t, all+"etcdctl endpoint health --cluster", t.TempDir())
}

// raise raises the alarm for a member.
func raise(t *testing.T, c *cluster, member int) {
	t.Helper()
	client := c.Client()
	id := c.status(t, client, member).Header.MemberId
	alarm := &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, Alarm: pb.AlarmType_CORRUPT, MemberID: id}
	if _, err := pb.NewMaintenanceClient(client.ActiveConnection()).Alarm(t.Context(), alarm); err != nil {
		t.Fatal(err)
	}
}

// status returns what a member says of itself.
func (c *cluster) status(t *testing.T, client *clientv3.Client, member int) *clientv3.StatusResponse {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), generous)
	defer cancel()
	status, err := client.Status(ctx, c.urls(member))
	if err != nil {
		t.Fatal(err)
	}
	return status
}

// findsIn fails unless the lists lead from the alarm to the member.
func (c *cluster) findsIn(t *testing.T, lists string, member int) {
	t.Helper()
	alarm := regexp.MustCompile(`memberID:(\d+) +alarm:CORRUPT`).FindStringSubmatch(lists)
	if alarm == nil {
		t.Fatalf("got %q, want it to say which member is corrupt", lists)
	}
	id, err := strconv.ParseUint(alarm[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("%x, started, %s, ", id, named(member)); !strings.Contains(lists, want) {
		t.Errorf("got %q, want %q", lists, want)
	}
}

// readsOn fails unless a replica that cannot write, for this cause, says so and
// serves what can be read.
func readsOn(t *testing.T, r *harness.Replica, owner, cause string) {
	t.Helper()
	p := on(t, r, "reader")
	p.http.Must(t, "GET", "/readyz", nil).Want(t, 200)
	if got := p.state("deploy"); ownerOf(got) != owner {
		t.Errorf("got %s, want it to be owned by %s", got.Raw, owner)
	}
	if got := p.calls("idle", "acquire", nil); got.Status != 503 || got.Code() != "unavailable" {
		t.Errorf("acquire: got %d %s, want 503 unavailable", got.Status, got.Raw)
	}
	beat := regexp.MustCompile(`"msg":"no heartbeat".*` + cause)
	eventually(t, "the log says that there is no heartbeat, and why", func() bool { return beat.MatchString(r.Log()) })
}
