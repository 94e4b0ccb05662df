package torture_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// The same as T06, but the reply is late instead of lost: without a majority
// etcd takes a request, and carries it out when the others are back
// (Netflix/curator 600).
func TestT06ReplyOfEtcdComesAfterAnOutage(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"two frozen", "the leader left"} {
		for _, held := range []bool{false, true} {
			for _, stays := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, held: %v, who stays: %v", name, held, stays), func(t *testing.T) {
					t.Parallel()
					o := outages[name]
					e := o.inTurn(t)
					s := openOn(t, e, impatient)
					s.party("alice").Acquires("other", long)
					s.party("bob").Asks("other", 10*time.Millisecond, long).IsRefused(423, "mutex_locked")
					for round := range sized(1, 4) {
						outlivesOutage(s, func() func() { return o.away(e) }, e.Client(), fmt.Sprintf("deploy-%d", round), held, stays)
					}
				})
			}
		}
	}
}

// outlivesOutage has bob ask in an outage. He is gone when it is over, or asks
// again.
func outlivesOutage(s *stage, away func() func(), cli *clientv3.Client, mutex string, held, stays bool) {
	s.t.Helper()
	alice, bob, carol := s.party("alice"), s.party("bob"), s.party("carol")
	patience := time.Duration(0)
	if held {
		alice.Acquires(mutex, long)
		patience = generous
	}
	back := away()
	w := bob.Asks(mutex, patience, long)
	if stays {
		isOutage(s.t, w.answer())
		answersInTime(s.t, w.sent)
	} else {
		time.Sleep(300 * time.Millisecond) // until it waits for etcd: nothing shows that
		w.HangsUp()
	}
	back()
	s.eventually("it is ready", func() bool { return s.eye.Must(s.t, "GET", "/readyz", nil).Status == 200 })
	switch {
	case stays && held:
		again := bob.joins(mutex, generous, long)
		alice.Releases(mutex)
		again.Owns().releases()
	case stays:
		g, _ := bob.acquiresSoon(mutex, long)
		g.releases()
	case held:
		s.eventually("nobody waits", func() bool { return s.waiters(mutex) == 0 })
		alice.Releases(mutex)
	default:
		s.eventually("nobody owns", func() bool { return s.owner(mutex) == "" })
	}
	// What bob sent may have been sent again: a copy that comes now is undone.
	s.eventually("it is idle", func() bool { return s.state(mutex).String("state") == "idle" && s.waiters(mutex) == 0 })
	carol.acquiresSoon(mutex, long)
	// A ghost that came later would be seen here.
	if got, err := cli.Get(context.Background(), prefix+"m/"+mutex+"/owner"); err != nil || got.Count != 1 || s.owner(mutex) != "carol" {
		s.t.Errorf("got owner %q, %v; want carol", s.owner(mutex), err)
	}
}
