package operate_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// fills writes one key of the test's own again and again, as whoever never
// compacts does, until etcd has no space.
func fills(t *testing.T, c *clientv3.Client) {
	t.Helper()
	value := strings.Repeat("x", 200_000)
	for range 200 {
		_, err := c.Put(t.Context(), "/of-the-test", value)
		if errors.Is(err, rpctypes.ErrNoSpace) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("etcd has space without end")
}

// noSpace fails unless the answer is a refusal that says whose the trouble is.
func noSpace(t *testing.T, what string, r harness.Reply) {
	t.Helper()
	if r.Status != 503 || r.Code() != "unavailable" || !strings.Contains(r.String("detail"), "out of space") {
		t.Errorf("%s: got %d %s, want 503 unavailable, out of space", what, r.Status, r.Raw)
	}
	if r.Header.Get("Retry-After") == "" {
		t.Errorf("%s: got %v, want it to say when to come again", what, r.Header)
	}
}

func TestOutOfSpace(t *testing.T) {
	t.Parallel()
	m := startMember(t, map[string]any{"quota-backend-bytes": 4 << 20})
	r := harness.Start(t, "--etcd="+m.url())
	restarted := harness.Start(t, "--etcd="+m.url())
	const ttl, transition, full = 2 * time.Second, time.Second, 10 * time.Second

	short := windows(ttl, transition)
	alice := on(t, r, "alice").Keeps("deploy", short)
	bob := on(t, r, "bob").Waits("deploy", 40*time.Second, long)
	carol := on(t, r, "carol").Waits("deploy", 2*time.Second, long) // polls end meanwhile
	erin := on(t, r, "erin")
	erins := erin.Acquires("erins", long)
	silent := on(t, r, "silas").Acquires("silent", short)
	began := time.Now()
	fills(t, m.Client())
	restarted.Kill()
	restarted = restarted.Again()

	for time.Since(began) < full {
		erin.http.Must(t, "GET", "/readyz", nil).Want(t, 200) // no other replica can do better
		noSpace(t, "acquire", on(t, r, "dave").calls("idle", "acquire", nil))
		noSpace(t, "acquire of a held one, with a wait", on(t, r, "dave").calls("deploy", "acquire", with{"wait_ms": 1000}))
		noSpace(t, "guard", erin.calls("erins", "guard", nil))
		noSpace(t, "release", erin.calls("erins", "release", nil))
		if got := ownerOf(erin.state("deploy")); got != "alice" {
			t.Fatalf("%s owns after %v without space, want alice", got, time.Since(began))
		}
		if got := erin.state("silent"); ownerOf(got) != "silas" {
			t.Fatalf("silas, who does not guard, lost after %v: %s", time.Since(began), got.Raw)
		}
		bob.hasNot()
		carol.hasNot()
		time.Sleep(250 * time.Millisecond)
	}
	readsOn(t, restarted, "alice", "database space exceeded")

	bash(t, towards(t, m.url())+typed(t, makingRoom), t.TempDir())
	alice.owns(t)
	erin.at(t, restarted).Guards("erins", erins) // it goes on by itself
	erin.Releases("erins")
	alice.stops()
	alice.p.Releases("deploy")
	got := bob.Gets()
	if got <= alice.token {
		t.Errorf("bob: got fencing token %d, want it larger than alice's, %d", got, alice.token)
	}
	bob.p.Releases("deploy")
	if next := carol.Gets(); next <= got {
		t.Errorf("carol: got fencing token %d, want it larger than bob's, %d", next, got)
	}
	if got := on(t, r, "dave").Waits("silent", 10*time.Second, nil).Gets(); got <= silent { // it is over in the end
		t.Errorf("got fencing token %d, want it larger than %d", got, silent)
	}
}
