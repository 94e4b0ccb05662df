package harness_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/holdfast-lock/holdfast/test/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// echo returns the address of a server that sends back each line, and a
// channel that yields when it sees the end of a connection.
func echo(t *testing.T) (addr string, ended chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	ended = make(chan struct{}, 10)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c)
				_ = c.Close()
				ended <- struct{}{}
			}()
		}
	}()
	return l.Addr().String(), ended
}

func dial(t *testing.T, p *harness.Proxy) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// ask sends a line and returns what came back within the time given.
func ask(t *testing.T, c net.Conn, line string, within time.Duration) (string, error) {
	t.Helper()
	if _, err := io.WriteString(c, line); err != nil {
		return "", err
	}
	return hear(t, c, within)
}

func hear(t *testing.T, c net.Conn, within time.Duration) (string, error) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(within)); err != nil {
		t.Fatal(err)
	}
	return bufio.NewReader(c).ReadString('\n')
}

func TestProxyHoldsBytesAndEnds(t *testing.T) {
	addr, ended := echo(t)
	p := harness.NewProxy(t, addr)
	c := dial(t, p)
	if got, err := ask(t, c, "a\n", 5*time.Second); got != "a\n" {
		t.Fatalf("got %q, %v; want the line back", got, err)
	}

	p.Hold(harness.ToClient)
	if got, err := ask(t, c, "b\n", 100*time.Millisecond); err == nil {
		t.Fatalf("got %q through a held link", got)
	}
	p.Heal()
	if got, err := hear(t, c, 5*time.Second); got != "b\n" {
		t.Fatalf("got %q, %v; want the late line", got, err)
	}

	p.Hold()
	_ = c.Close()
	late := dial(t, p)
	if got, err := ask(t, late, "c\n", 100*time.Millisecond); err == nil {
		t.Fatalf("got %q through a new link while links are held", got)
	}
	select {
	case <-ended:
		t.Fatal("the server saw the end of a client behind a black hole")
	default:
	}
	p.Heal()
	<-ended
	if got, err := hear(t, late, 5*time.Second); got != "c\n" {
		t.Fatalf("got %q, %v; want the late line", got, err)
	}
}

func TestProxyCuts(t *testing.T) {
	addr, ended := echo(t)
	p := harness.NewProxy(t, addr)
	c := dial(t, p)
	if got, err := ask(t, c, "a\n", 5*time.Second); got != "a\n" {
		t.Fatalf("got %q, %v; want the line back", got, err)
	}
	p.Cut()
	<-ended
	if _, err := hear(t, c, 5*time.Second); err == nil || os.IsTimeout(err) {
		t.Fatalf("got %v, want a reset", err)
	}
	// The reset may come while the link is made, or after that.
	if again, err := net.Dial("tcp", p.Addr()); err == nil {
		t.Cleanup(func() { _ = again.Close() })
		if got, err := ask(t, again, "b\n", 5*time.Second); err == nil {
			t.Fatalf("got %q through a cut link", got)
		}
	}
	p.Heal()
	if got, err := ask(t, dial(t, p), "c\n", 5*time.Second); got != "c\n" {
		t.Fatalf("got %q, %v; want the line back", got, err)
	}
}

func TestProxyDelays(t *testing.T) {
	addr, _ := echo(t)
	p := harness.NewProxy(t, addr)
	c := dial(t, p)
	p.Delay(50 * time.Millisecond)
	begin := time.Now()
	got, err := ask(t, c, "a\n", 5*time.Second)
	if took := time.Since(begin); got != "a\n" || took < 100*time.Millisecond {
		t.Fatalf("got %q, %v after %v; want the line after 100ms or more", got, err, took)
	}
}

// A delay is that of a long line: what follows does not wait for what is under
// way.
func TestProxyDelaysAllAlike(t *testing.T) {
	const delay, pace, lines = 200 * time.Millisecond, 10 * time.Millisecond, 20
	addr, _ := echo(t)
	p := harness.NewProxy(t, addr)
	p.Delay(delay, harness.ToServer)
	c := dial(t, p)
	sent := make(chan time.Time, lines)
	go func() {
		for range lines {
			sent <- time.Now()
			_, _ = io.WriteString(c, "a\n")
			time.Sleep(pace)
		}
		_ = c.(*net.TCPConn).CloseWrite()
	}()
	r := bufio.NewReader(c)
	begin := time.Now()
	var last time.Time
	for i := range lines {
		if _, err := r.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		last = <-sent
		if took := time.Since(last); took < delay {
			t.Errorf("line %d took %v, want %v or more", i, took, delay)
		}
	}
	// Half a second is for a busy machine.
	if took := time.Since(begin); took > delay+lines*pace+500*time.Millisecond {
		t.Errorf("got all lines after %v, want them after one delay", took)
	}
	if _, err := r.ReadByte(); !errors.Is(err, io.EOF) || time.Since(last) < delay+pace {
		t.Errorf("got %v %v after the last line, want the end as late as a line", err, time.Since(last))
	}
}

func TestProxyHealsADelay(t *testing.T) {
	addr, _ := echo(t)
	p := harness.NewProxy(t, addr)
	c := dial(t, p)
	p.Delay(time.Hour)
	if got, err := ask(t, c, "a\n", 100*time.Millisecond); err == nil {
		t.Fatalf("got %q, want it an hour later", got)
	}
	p.Heal()
	if got, err := hear(t, c, 5*time.Second); got != "a\n" {
		t.Fatalf("got %q, %v; want the line, which was under way", got, err)
	}
}

func TestEtcdSurvivesItsLeader(t *testing.T) {
	t.Parallel()
	e := harness.StartEtcd(t, 3)
	c := e.Client()
	if _, err := c.Put(t.Context(), "k", "v"); err != nil {
		t.Fatal(err)
	}
	old := e.Leader()
	e.Members[old].Kill()
	if got := e.Leader(); got == old {
		t.Fatalf("got leader %d, which was killed", got)
	}
	e.Members[old] = e.Members[old].Again()
	if got, err := c.Get(t.Context(), "k"); err != nil || got.Count != 1 {
		t.Fatalf("got %v, %v; want the key", got, err)
	}
}
