package readme_test

import (
	"net"
	"net/http"
	"regexp"
	"testing"
	"time"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// TestMakeRun types the first line of the page: `make run`, once so that all
// is compiled, and then once more to see how long it takes.
func TestMakeRun(t *testing.T) {
	needs(t, "bash", "make")
	line := blocks(t)[0]
	if line.text != "make run\n" {
		t.Fatalf("README.md:%d: got %q, want the page to begin with make run", line.line, line.text)
	}
	addr := freeAddr(t)
	env := []string{"HOLDFAST_LISTEN=" + addr, "HOLDFAST_DATA_DIR=" + harness.Dir(t)}
	makeRun(t, line.text, addr, env, 10*time.Minute)
	took := makeRun(t, line.text, addr, env, patience)
	t.Logf("serving after %v", took.Round(time.Millisecond))
	// The page says a second; every core may be busy with other tests here.
	if took > 30*time.Second {
		t.Errorf("serving after %v", took)
	}
}

// makeRun returns how long it took until the service was ready.
func makeRun(t *testing.T, line, addr string, env []string, within time.Duration) time.Duration {
	t.Helper()
	s := newShell(t, "make run", env...)
	begin := time.Now()
	s.enter(line)
	for !ready(addr) {
		if time.Since(begin) > within {
			t.Fatalf("not ready after %v", within)
		}
		time.Sleep(20 * time.Millisecond)
	}
	took := time.Since(begin)
	s.interrupt()
	s.out.await(t, regexp.MustCompile(`"msg":"stopped"`), patience)
	return took
}

func ready(addr string) bool {
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + addr + "/readyz")
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
