package operate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// compacts compacts at the newest revision every 50 ms, until the test ends.
func compacts(t *testing.T, c *clientv3.Client) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			resp, err := c.Get(ctx, "/of-the-test")
			if err == nil {
				_, err = c.Compact(ctx, resp.Header.Revision)
			}
			if err != nil && ctx.Err() == nil && !errors.Is(err, rpctypes.ErrCompacted) {
				t.Errorf("compact: %v", err)
			}
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}()
}

// away is how long a replica loses sight of etcd: longer than windows, and than
// replicas take to count as dead.
const away = 5 * time.Second

// faults are how it does.
var faults = map[string]func(*harness.Proxy){
	"cut":  func(p *harness.Proxy) { p.Cut() },
	"held": func(p *harness.Proxy) { p.Hold() },
}

// While etcd is compacted as fast as can be, one of two replicas is away for
// longer than the windows: what it missed cannot be read any more.
func TestCompactionUnderfoot(t *testing.T) {
	t.Parallel()
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compactionUnderfoot(t, fault)
		})
	}
}

func compactionUnderfoot(t *testing.T, fault func(*harness.Proxy)) {
	m := startMember(t, nil)
	link := harness.NewProxy(t, m.Members[0].Addr)
	near := harness.Start(t, "--etcd="+m.url())
	far := harness.Start(t, "--etcd="+link.Addr())
	compacts(t, m.Client())

	short := windows(2*time.Second, time.Second)
	replicas := map[string]*harness.Replica{"near": near, "far": far}
	streams := map[string]*stream{"near": listen(t, near, "deploy", ""), "far": listen(t, far, "deploy", "")}
	keepers := map[string]*keeper{}
	for side, r := range replicas {
		keepers[side] = on(t, r, "keeper").Keeps("kept-"+side, short, near)
	}
	alice := on(t, near, "alice")
	token := alice.Acquires("deploy", long)
	bob := on(t, far, "bob").Waits("deploy", 30*time.Second, long)
	carol := on(t, near, "carol").Waits("deploy", 2*time.Second, long)
	for _, s := range streams {
		s.tells("acquired", "alice")
	}
	first := streams["far"].lastID()
	revision := alice.state("deploy").Int("revision")
	missed := listen(t, far, "missed", "")
	mary := on(t, near, "mary")
	mary.Acquires("missed", long)
	missed.tells("acquired", "mary")

	fault(link)
	mary.Releases("missed")
	on(t, near, "nobody-saw").Acquires("missed", long)
	busy := on(t, near, "busy")
	for began := time.Now(); time.Since(began) < away; {
		// History that the far replica does not see, and nobody can read later.
		busy.cycles("busy", 1)
		keepers["near"].owns(t)
	}
	dora := on(t, near, "dora").Waits("deploy", 30*time.Second, long)
	link.Heal()

	for _, k := range keepers {
		k.owns(t)
	}
	missed.tells("nobody-saw") // in a reset, as a rule
	eventually(t, "the far replica lists what it missed", func() bool {
		return strings.Contains(on(t, far, "reader").http.Must(t, "GET", "/v1/mutexes?prefix=missed", nil).Raw, "nobody-saw")
	})
	eventually(t, "all are in line", func() bool { return alice.state("deploy").Int("waiters") == 3 })
	alice.Guards("deploy", token)
	last := alice
	news := on(t, far, "reader").reads("deploy", alice.state("deploy").Int("revision"))
	for _, w := range []*wait{bob, carol, dora} { // as they joined
		last.Releases("deploy")
		got := w.Gets()
		if got <= token {
			t.Errorf("%s: got fencing token %d, want it larger than %d", w.p.name, got, token)
		}
		token, last = got, w.p
		for _, s := range streams {
			s.tells("acquired", last.name)
		}
	}
	if r := <-news; r.Status != 200 || ownerOf(r) == "alice" {
		t.Errorf("blocking read: got %d %s, want 200 and who came after alice", r.Status, r.Raw)
	}
	for side, r := range replicas {
		if got := <-on(t, r, "reader").reads("deploy", revision); got.Status != 200 || got.Took > 5*time.Second {
			t.Errorf("%s: a read from before the compactions took %v: got %s", side, got.Took, got.Raw)
		}
		listen(t, r, "deploy", first).tells("reset")
	}
}

// reads begins to read a mutex when it is newer than this.
func (p *party) reads(mutex string, revision int64) <-chan harness.Reply {
	news := make(chan harness.Reply, 1)
	go func() {
		r, err := p.http.Call(p.t.Context(), "GET", fmt.Sprintf("/v1/mutexes/%s?revision=%d&wait_ms=20000", mutex, revision), nil)
		if err != nil {
			p.t.Errorf("read %s: %v", mutex, err)
		}
		news <- r
	}()
	return news
}
