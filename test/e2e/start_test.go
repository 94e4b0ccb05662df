// Package e2e_test starts whole programs and looks at how they start, serve
// and end.
package e2e_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-lock/holdfast/test/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// acquire asks for a mutex as its only contender, and fails where it is not
// granted.
func acquire(t *testing.T, c *harness.Client, mutex, token string) harness.Reply {
	t.Helper()
	return c.Must(t, "POST", "/v1/mutexes/"+mutex+"/acquire", map[string]any{
		"token": token, "ttl_ms": 60_000, "transition_ms": 0,
	}).Want(t, 200)
}

// Tokens have 16 characters or more.
const (
	aliceToken = "token-of-alice-0"
	bobToken   = "token-of-bob-000"
)

func TestReadyWithinThreeSeconds(t *testing.T) {
	harness.Program(t)
	r := harness.Start(t, "--data-dir="+harness.Dir(t))
	t.Logf("first start: serving after %v", r.StartTook())
	r.Client().Must(t, "GET", "/readyz", nil).Want(t, 200)
	if got := r.StartTook(); got > 3*time.Second {
		t.Errorf("serving after %v, want 3s at most", got)
	}
	r.Terminate()
	r.Wait(10 * time.Second)
	again := r.Again()
	t.Logf("second start: serving after %v", again.StartTook())
	if again.Addr() != r.Addr() {
		t.Errorf("got address %s, want %s as before", again.Addr(), r.Addr())
	}
}

func TestRestartKeepsOwnerships(t *testing.T) {
	for name, end := range map[string]func(r *harness.Replica){
		"terminated": func(r *harness.Replica) { r.Terminate(); r.Wait(10 * time.Second) },
		"killed":     func(r *harness.Replica) { r.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			r := harness.Start(t, "--data-dir="+harness.Dir(t))
			before := acquire(t, r.Client(), "deploy", aliceToken)
			end(r)

			alice := r.Again().Client()
			alice.Must(t, "POST", "/v1/mutexes/deploy/acquire", map[string]any{"token": bobToken}).Want(t, 423)
			after := alice.Must(t, "POST", "/v1/mutexes/deploy/guard", map[string]any{"token": aliceToken}).Want(t, 200)
			if got, want := after.Int("fencing_token"), before.Int("fencing_token"); got != want || got == 0 {
				t.Errorf("got fencing token %d after the restart, want %d", got, want)
			}
		})
	}
}

func TestClusterOutsideOfTheProcess(t *testing.T) {
	e := harness.StartEtcd(t, 1)
	one := harness.Start(t, "--etcd="+e.Endpoints())
	two := harness.Start(t, "--etcd="+e.Endpoints())
	acquire(t, one.Client(), "deploy", aliceToken)
	two.Client().Must(t, "POST", "/v1/mutexes/deploy/acquire", map[string]any{"token": bobToken}).Want(t, 423)

	other := harness.Start(t, "--etcd="+e.Endpoints(), "--prefix=/another/")
	acquire(t, other.Client(), "deploy", bobToken)
}

func TestNothingButTheAddressIsListenedOn(t *testing.T) {
	dir := harness.Dir(t)
	r := harness.Start(t, "--data-dir="+dir)
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o700 {
		t.Errorf("got mode %o of the data directory, want 700", got)
	}
	sockets, err := filepath.Glob(filepath.Join(dir, "*.sock"))
	if err != nil || len(sockets) != 1 {
		t.Errorf("got sockets %v, %v; want one for etcdctl", sockets, err)
	}
	if got := listeners(t, r.PID()); len(got) != 1 {
		t.Errorf("got TCP listeners %v, want one", got)
	}
}
