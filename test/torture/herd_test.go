package torture_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// All waiters woke and wrote at each release (hashicorp/consul 7523).
func TestT41NoHerd(t *testing.T) {
	t.Parallel()
	few, many := releaseCosts(t, 5), releaseCosts(t, 500)
	t.Logf("%d releases with 5 waiters: %+v, with 500: %+v", releases, few, many)
	if few.writes != many.writes || few.keys != many.keys {
		t.Errorf("got %+v with 500 waiters, want %+v as with 5", many, few)
	}
	if many.writes != releases {
		t.Errorf("got %d writes, want one for each of %d releases", many.writes, releases)
	}
	// A replica writes its sign every second, and calls again where etcd is
	// slow, but not for each waiter.
	if got := many.transactions - few.transactions; got > 50 {
		t.Errorf("got %d transactions more with 500 waiters than with 5, want hardly any", got)
	}
}

// releases is how many are looked at, in a row.
const releases = 3

// costs are what etcd was asked for.
type costs struct {
	writes       int // revisions
	keys         int // written or deleted
	transactions int // those that failed, or only read, among them
}

// releaseCosts returns what releases of a mutex cost for which so many wait.
func releaseCosts(t *testing.T, waiters int) costs {
	e := harness.StartEtcd(t, 1)
	s, cli := openOn(t, e), e.Client()
	alice := s.party("alice")
	alice.Acquires("deploy", long)
	polls := s.crowd("deploy", waiters, long)
	order := s.present("deploy")

	asked := transactions(t, e)
	begin, err := cli.Get(context.Background(), prefix, clientv3.WithCountOnly())
	if err != nil {
		t.Fatal(err)
	}
	alice.Releases("deploy")
	for _, who := range order[:releases-1] {
		polls[who].Owns().releases()
	}
	polls[order[releases-1]].Owns()
	// Whoever was woken for nothing acts while these go to etcd and back.
	for range 100 {
		s.state("deploy")
	}
	c := written(t, cli, begin.Header.Revision)
	c.transactions = transactions(t, e) - asked
	return c
}

// written returns the writes after a revision, without the signs of life of
// replicas.
func written(t *testing.T, cli *clientv3.Client, after int64) (c costs) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	end, err := cli.Put(ctx, prefix+"torture/end", "")
	if err != nil {
		t.Fatal(err)
	}
	revisions := make(map[int64]bool)
	for answer := range cli.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(after+1)) {
		if err := answer.Err(); err != nil {
			t.Fatal(err)
		}
		for _, ev := range answer.Events {
			if ev.Kv.ModRevision == end.Header.Revision {
				c.writes = len(revisions)
				return c
			}
			if !strings.HasPrefix(string(ev.Kv.Key), prefix+"replicas/") {
				revisions[ev.Kv.ModRevision] = true
				c.keys++
			}
		}
	}
	t.Fatal("the watch ended")
	return c
}

// transactions returns how many a member has been asked for.
func transactions(t *testing.T, e *harness.Etcd) int {
	t.Helper()
	text := harness.NewClient("http://"+e.Members[0].Addr).Must(t, "GET", "/metrics", nil).Want(t, 200).Raw
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, `grpc_server_started_total{grpc_method="Txn"`) {
			f := strings.Fields(line)
			n, err := strconv.ParseFloat(f[len(f)-1], 64)
			if err != nil {
				t.Fatal(err)
			}
			return int(n)
		}
	}
	t.Fatal("etcd does not say how many transactions there were")
	return 0
}
