package torture_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-lock/holdfast/test/harness"
)

const prefix = "/holdfast/v1/"

// openOn starts a service on a cluster outside of it.
func openOn(t *testing.T, e *harness.Etcd, flags ...string) *stage {
	t.Helper()
	return stageOf(t, harness.Start(t, append([]string{"--etcd=" + e.Endpoints()}, flags...)...))
}

// revokeAllBut revokes every lease in etcd, as an expiry would, but those that
// the keys named hang on.
func revokeAllBut(t *testing.T, cli *clientv3.Client, spared ...string) {
	t.Helper()
	ctx := context.Background()
	all, err := cli.Leases(ctx)
	if err != nil {
		t.Fatal(err)
	}
	revoked := 0
	for _, l := range all.Leases {
		keys, err := cli.TimeToLive(ctx, l.ID, clientv3.WithAttachedKeys())
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(keys.Keys, func(k []byte) bool { return hasAnyPrefix(string(k), spared) }) {
			continue
		}
		if _, err := cli.Revoke(ctx, l.ID); err != nil {
			t.Fatal(err)
		}
		revoked++
	}
	if revoked == 0 {
		t.Error("no lease was revoked")
	}
}

func hasAnyPrefix(s string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(s, p) })
}

// A mutex was granted although the waiter's own lease had died while it waited
// (etcd-io/etcd 11456).
func TestT10WaitLongerThanTheTTL(t *testing.T) {
	t.Parallel()
	const ttl = time.Second
	for name, meanwhile := range map[string]func(t *testing.T, cli *clientv3.Client){
		"in peace": func(*testing.T, *clientv3.Client) {},
		"while its own lease dies": func(t *testing.T, cli *clientv3.Client) {
			revokeAllBut(t, cli, prefix+"m/deploy/", prefix+"replicas/")
		},
		"while its place's dies, too": func(t *testing.T, cli *clientv3.Client) {
			revokeAllBut(t, cli, prefix+"m/deploy/owner", prefix+"replicas/")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := harness.StartEtcd(t, 1)
			s := openOn(t, e)
			alice, bob, carol := s.party("alice"), s.party("bob"), s.party("carol")
			// Bob's windows are of another class than alice's, so that his
			// lease is not hers.
			alice.Acquires("deploy", windows(10*time.Minute, 0))
			bobs := bob.Waits("deploy", generous, windows(ttl, 0))
			carols := carol.Waits("deploy", generous, long)
			time.Sleep(time.Until(bobs.sent.Add(3 * ttl)))
			meanwhile(t, e.Client())
			s.eventually("both wait", func() bool { return s.waiters("deploy") == 2 })

			released := time.Now()
			alice.Releases("deploy")
			g := bobs.Owns()
			// On a busy machine the answer is a while on its way; a window that
			// began with the wait would be over for long.
			if left := g.Int("ttl_remaining_ms"); left < 500 || left > 1000 {
				t.Errorf("got ttl_remaining_ms %d at the grant, want the full 1000", left)
			}
			if held := carols.Owns().got.Sub(released); held < ttl {
				t.Errorf("got bob's ownership ended after %v, want %v at least", held, ttl)
			}
		})
	}
}

// A waiter whose session had died waited on, and was then answered with a 500
// (etcd-io/etcd 19597).
func TestT11SessionOfWaitersDies(t *testing.T) {
	t.Parallel()
	t.Run("the living wait on", func(t *testing.T) {
		t.Parallel()
		e := harness.StartEtcd(t, 1)
		s, cli := openOn(t, e), e.Client()
		s.party("alice").Acquires("deploy", long)
		var polls []*poll
		for i := range 5 {
			polls = append(polls, s.party(fmt.Sprintf("waiter-%d", i)).Waits("deploy", 40*time.Second, long))
		}
		for range 3 {
			// Those of the places and of the replica, which is the session.
			revokeAllBut(t, cli, prefix+"m/deploy/owner")
			s.eventually("all are back", func() bool { return s.waiters("deploy") == len(polls) })
		}
		released := time.Now()
		s.party("alice").Releases("deploy")
		for _, w := range polls {
			w.Owns().soonAfter(released).releases()
			released = time.Now()
		}
		s.isIdle("deploy")
	})
	t.Run("the dead are gone", func(t *testing.T) {
		t.Parallel()
		e := harness.StartEtcd(t, 1)
		s, cli := openOn(t, e), e.Client()
		s.party("alice").Acquires("deploy", long)
		var times []time.Duration
		for i := range 5 {
			w := s.party(fmt.Sprintf("waiter-%d", i)).Waits("deploy", 40*time.Second, long)
			w.hang()
			// Not that of the replica, without which nobody counts as present.
			revokeAllBut(t, cli, prefix+"m/deploy/owner", prefix+"replicas/")
			<-w.done
			times = append(times, s.eventually("it is gone", func() bool { return s.waiters("deploy") == 0 }))
		}
		seldomLate(t, "gone from the line", 2*time.Second, times)
		s.party("alice").Releases("deploy")
		s.isIdle("deploy")
		s.party("bob").Acquires("deploy")
	})
}
