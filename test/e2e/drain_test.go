package e2e_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// quick is what "at once" may take for an end: the race detector, and other
// tests on the same cores.
const quick = 2 * time.Second

// ends terminates a replica, and returns how long it took to end well.
func ends(t *testing.T, r *harness.Replica) time.Duration {
	t.Helper()
	begin := time.Now()
	r.Terminate()
	if got := r.Wait(20 * time.Second); got != 0 {
		t.Errorf("got status %d, want 0", got)
	}
	took := time.Since(begin)
	t.Logf("ended after %v", took.Round(time.Millisecond))
	return took
}

// later makes a request in the background, on a connection of its own.
func later(r *harness.Replica, method, path string, body any) <-chan answer {
	ch := make(chan answer, 1)
	go func() {
		reply, err := r.Client().Call(context.Background(), method, path, body)
		ch <- answer{reply, err}
	}()
	return ch
}

type answer struct {
	reply harness.Reply
	err   error
}

func (a answer) want(t *testing.T, status int, code string) {
	t.Helper()
	if a.err != nil {
		t.Fatalf("got %v, want an answer", a.err)
	}
	a.reply.Want(t, status)
	if got := a.reply.Code(); got != code {
		t.Errorf("got code %q, want %q", got, code)
	}
}

// awaitWaiters returns when so many wait for a mutex.
func awaitWaiters(t *testing.T, r *harness.Replica, mutex string, want int64) {
	t.Helper()
	c := r.Client()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if c.Must(t, "GET", "/v1/mutexes/"+mutex, nil).Want(t, 200).Int("waiters") == want {
			return
		}
	}
	t.Fatalf("%d never waited for %s", want, mutex)
}

// unfinished opens a connection on which a request has begun that does not
// end.
func unfinished(t *testing.T, r *harness.Replica) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", r.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_, err = io.WriteString(c, "POST /v1/mutexes/slow/acquire HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{")
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond) // until it has arrived: nothing shows that
	return c
}

func TestIdleReplicaEndsAtOnce(t *testing.T) {
	r := harness.Start(t, "--data-dir="+harness.Dir(t))
	acquire(t, r.Client(), "deploy", aliceToken) // leaves an idle connection
	fresh, err := net.Dial("tcp", r.Addr())      // and one without a request
	if err != nil {
		t.Fatal(err)
	}
	defer fresh.Close()
	if took := ends(t, r); took > quick {
		t.Errorf("ended after %v, want at once", took)
	}
}

func TestDrainAnswersPolls(t *testing.T) {
	r := harness.Start(t, "--data-dir="+harness.Dir(t))
	acquire(t, r.Client(), "deploy", aliceToken)
	line := later(r, "POST", "/v1/mutexes/deploy/acquire", map[string]any{"token": bobToken, "wait_ms": 30_000})
	awaitWaiters(t, r, "deploy", 1)
	revision := r.Client().Must(t, "GET", "/v1/mutexes/deploy", nil).Want(t, 200).Int("revision")
	read := later(r, "GET", fmt.Sprintf("/v1/mutexes/deploy?wait_ms=30000&revision=%d", revision), nil)
	events := later(r, "GET", "/v1/mutexes/deploy/events", nil)
	time.Sleep(200 * time.Millisecond) // until both wait: nothing shows that

	if took := ends(t, r); took > quick {
		t.Errorf("ended after %v, want at once", took)
	}
	(<-line).want(t, 503, "draining")
	(<-read).want(t, 503, "draining")
	(<-events).want(t, 200, "") // it ends in order, and is resumed elsewhere
}

func TestDrainServesWhatIsInFlight(t *testing.T) {
	e := harness.StartEtcd(t, 1)
	r := harness.Start(t, "--etcd="+e.Endpoints())
	acquire(t, r.Client(), "deploy", aliceToken)

	e.Members[0].Pause()
	guard := later(r, "POST", "/v1/mutexes/deploy/guard", map[string]any{"token": aliceToken})
	time.Sleep(200 * time.Millisecond) // until it waits for etcd
	r.Terminate()
	time.Sleep(500 * time.Millisecond)
	if r.Ended() {
		t.Fatal("ended with a request in flight")
	}
	reply, err := r.Client().Call(t.Context(), "GET", "/readyz", nil)
	if err == nil && reply.Status == 200 {
		t.Error("ready while it drains")
	}
	e.Members[0].Resume()
	(<-guard).want(t, 200, "")
	if got := r.Wait(quick); got != 0 {
		t.Errorf("got status %d, want 0", got)
	}
}

func TestDrainIsBounded(t *testing.T) {
	e := harness.StartEtcd(t, 1)
	r := harness.Start(t, "--etcd="+e.Endpoints(), "--drain=1s")
	acquire(t, r.Client(), "deploy", aliceToken)
	unfinished(t, r)
	e.Members[0].Pause()
	later(r, "POST", "/v1/mutexes/deploy/guard", map[string]any{"token": aliceToken})
	if took := ends(t, r); took > time.Second+quick {
		t.Errorf("ended after %v, want 1s", took)
	}
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	r := harness.Start(t, "--data-dir="+harness.Dir(t), "--drain=1m")
	unfinished(t, r)
	r.Terminate()
	time.Sleep(500 * time.Millisecond)
	if r.Ended() {
		t.Fatal("ended with a request in flight")
	}
	r.Terminate()
	r.Wait(quick)
}
