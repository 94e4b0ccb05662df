package torture_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// To clean up after a lock request that was abandoned hung when etcd was down
// (etcd-io/etcd 18082).
func TestT05AbandonedInAnOutage(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"frozen", "two frozen", "the leader left"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			abandonedInAnOutage(t, outages[name])
		})
	}
}

func abandonedInAnOutage(t *testing.T, o outage) {
	// All have to be in line, and etcd away, before the first has waited for as
	// long, on a busy machine, too.
	const requests, patience = 200, 20 * time.Second
	e := o.inTurn(t)
	s := openOn(t, e, impatient)
	s.party("alice").Acquires("deploy", long)
	before := s.Footprint().Sockets
	link := harness.NewProxy(t, s.Addr())

	polls := make([]*poll, requests)
	for i := range polls {
		polls[i] = s.party(fmt.Sprintf("waiter-%03d", i)).via(link).Asks("deploy", patience, long)
	}
	s.eventually("all wait", func() bool { return s.waiters("deploy") == requests })
	waiting := time.Now() // at the latest; on a busy machine a request is long on its way
	back := o.away(e)
	for _, w := range polls[:requests/2] {
		w.hang()
	}
	var late []time.Duration
	for _, w := range polls[requests/2:] {
		isOutage(t, w.answer())
		late = append(late, w.got.Sub(waiting)-patience-etcdTimeout)
	}
	// Half a second is for this machine, not for etcd.
	seldomLate(t, "later than the wait and --etcd-timeout by", 500*time.Millisecond, late)

	back()
	s.eventually("it is ready", func() bool { return s.eye.Must(t, "GET", "/readyz", nil).Status == 200 })
	s.becomesEmpty("deploy")
	s.party("alice").Releases("deploy")
	s.isIdle("deploy")
	link.Cut() // and with it the idle connections of those who stayed
	// Each member may be spoken to over one more, whatever the number of polls.
	s.eventually("connections are as before", func() bool { return s.Footprint().Sockets <= before+2+2*o.members })
	twin := openOn(t, e)
	twin.party("alice").Acquires("other")
	got, doing := s.Dump()
	if want, _ := twin.Dump(); got > want+20 {
		t.Errorf("got %d goroutines, want about %d as in one that has not been through this: %s", got, want, doing)
	}
}

// The reply that a place or an ownership was made was lost: it stayed, and
// blocked everybody (Netflix/curator 600).
func TestT06ReplyOfEtcdIsLost(t *testing.T) {
	t.Parallel()
	for name, held := range map[string]bool{"of the owner": false, "of a waiter": true} {
		for _, stays := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, who stays: %v", name, stays), func(t *testing.T) {
				t.Parallel()
				e := harness.StartEtcd(t, 1)
				link := harness.NewProxy(t, e.Members[0].Addr)
				s := stageOf(t, harness.Start(t, "--etcd="+link.Addr(), impatient))
				cli := e.Client()
				// The leases that everything hangs on are there before the link
				// is cut, so that a request is one transaction.
				s.party("alice").Acquires("other", long)
				s.party("bob").Asks("other", 10*time.Millisecond, long).IsRefused(423, "mutex_locked")
				for round := range 5 {
					loseReply(s, link, cli, fmt.Sprintf("deploy-%d", round), held, stays)
				}
			})
		}
	}
}

// loseReply lets bob's request be carried out, but cuts the link to etcd
// before the reply. Then bob is gone, or stays and asks again.
func loseReply(s *stage, link *harness.Proxy, cli *clientv3.Client, mutex string, held, stays bool) {
	s.t.Helper()
	alice, bob, carol := s.party("alice"), s.party("bob"), s.party("carol")
	patience, made := time.Duration(0), prefix+"m/"+mutex+"/owner"
	if held {
		alice.Acquires(mutex, long)
		patience, made = generous, prefix+"m/"+mutex+"/line/"
	}
	link.Hold(harness.ToClient)
	w := bob.Asks(mutex, patience, long)
	s.eventually("it is made in etcd", func() bool {
		got, err := cli.Get(context.Background(), made, clientv3.WithPrefix(), clientv3.WithCountOnly())
		return err == nil && got.Count == 1
	})
	link.Cut()
	if stays {
		isOutage(s.t, w.answer())
	} else {
		w.HangsUp()
	}
	link.Heal()
	s.eventually("it is ready", func() bool { return s.eye.Must(s.t, "GET", "/readyz", nil).Status == 200 })
	switch {
	case !stays && held:
		s.eventually("nobody waits", func() bool { return s.waiters(mutex) == 0 })
		alice.Releases(mutex)
	case !stays:
		s.eventually("nobody owns", func() bool { return s.owner(mutex) == "" })
	case held:
		again := bob.Asks(mutex, generous, long)
		s.eventually("bob is in line", func() bool { return s.waiters(mutex) == 1 })
		alice.Releases(mutex)
		again.Owns().releases()
	default:
		g, _ := bob.acquiresSoon(mutex, long)
		g.releases()
	}
	s.isIdle(mutex)
	carol.Acquires(mutex, long)
}
