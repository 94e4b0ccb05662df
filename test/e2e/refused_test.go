package e2e_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// refused starts a program that must not start: status 1, within the time
// given, and one line on stderr that has every text of want.
func refused(t *testing.T, cmd *exec.Cmd, within time.Duration, want ...string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	watchdog := time.AfterFunc(within+10*time.Second, func() { _ = cmd.Process.Kill() })
	defer watchdog.Stop()
	_ = cmd.Wait() // the status says it
	took := time.Since(begin)

	if got := cmd.ProcessState.ExitCode(); got != 1 {
		t.Errorf("got status %d, want 1", got)
	}
	if took > within {
		t.Errorf("refused after %v, want %v at most", took, within)
	}
	line := stderr.String()
	if strings.Count(line, "\n") != 1 || !strings.HasSuffix(line, "\n") {
		t.Errorf("got stderr %q, want one line", line)
	}
	for _, w := range want {
		if !strings.Contains(line, w) {
			t.Errorf("got %q, want it to have %q", line, w)
		}
	}
	if stdout.Len() > 0 {
		t.Errorf("got stdout %q, want none", stdout.String())
	}
	t.Logf("after %v: %s", took.Round(time.Millisecond), strings.TrimSpace(line))
}

// atOnce is generous: the race detector makes a program slow to start.
const atOnce = 3 * time.Second

func TestRefusedValues(t *testing.T) {
	for _, tc := range []struct{ args, flag string }{
		{"--listen=0.0.0.0:0", "--insecure"},
		{"--listen=:0", "--insecure"},
		{"--listen=[::]:0", "--insecure"},
		{"--listen=127.0.0.1", "--listen"},
		{"--listen=127.0.0.1:notaport", "--listen"},
		{"--drain=10", "--drain"},
		{"--drain=-1s", "--drain"},
		{"--etcd-timeout=1ms", "--etcd-timeout"},
		{"--default-ttl=99ms", "--default-ttl"},
		{"--default-ttl=25h", "--default-ttl"},
		{"--default-ttl=1s1us", "--default-ttl"},
		{"--default-transition=61m", "--default-transition"},
		{"--max-wait=0s", "--max-wait"},
		{"--undeclared=perhaps", "--undeclared"},
		{"--pprof=:0", "--pprof"},
		{"--pprof=127.0.0.1", "--pprof"},
		{"--log-level=loud", "--log-level"},
		{"--log-format=xml", "--log-format"},
		{"--prefix=holdfast", "--prefix"},
		{"--data-dir=", "--data-dir"},
		{"--etcd=nowhere", "--etcd"},
		{"--etcd=ftp://127.0.0.1:1", "--etcd"},
		{"--etcd=http://127.0.0.1:1 --etcd-ca=ca.pem", "--etcd"},
		{"--etcd=127.0.0.1:1 --etcd-cert=cert.pem", "--etcd-key"},
		{"--etcd=127.0.0.1:1 --etcd-user=root", "--etcd-password-file"},
		{"--etcd=127.0.0.1:1 --etcd-user=root --etcd-password-file=/nowhere", "--etcd-password-file"},
		{"--etcd=https://127.0.0.1:1 --etcd-ca=/nowhere", "certificate authority"},
		{"--etcd-user=root --etcd-password-file=x", "--etcd-user"},
		{"--no-such-flag", "--no-such-flag"},
		{"serve", "serve"},
	} {
		t.Run(tc.args, func(t *testing.T) {
			t.Parallel()
			refused(t, harness.Command(t, strings.Fields(tc.args)...), atOnce, tc.flag)
		})
	}
}

func TestRefusedVariable(t *testing.T) {
	cmd := harness.Command(t)
	cmd.Env = append(cmd.Env, "HOLDFAST_DEFAULT_TTL=soon")
	refused(t, cmd, atOnce, "--default-ttl", "HOLDFAST_DEFAULT_TTL")
}

func TestPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir := harness.Dir(t)
	cmd := harness.Command(t, "--listen="+l.Addr().String(), "--data-dir="+dir)
	refused(t, cmd, atOnce, "--listen", "address already in use", l.Addr().String())
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("got %v, want no trace of a refused start", err)
	}
}

func TestDataDirInUse(t *testing.T) {
	dir := harness.Dir(t)
	r := harness.Start(t, "--data-dir="+dir)
	cmd := harness.Command(t, "--listen=127.0.0.1:0", "--data-dir="+dir)
	refused(t, cmd, atOnce, "--data-dir", "in use", dir, fmt.Sprint(r.PID()))
	r.Client().Must(t, "GET", "/readyz", nil).Want(t, 200)
}

func TestUnusableDataDir(t *testing.T) {
	start := func(dir string) *exec.Cmd {
		return harness.Command(t, "--listen=127.0.0.1:0", "--data-dir="+dir)
	}
	refused(t, start("/proc/holdfast"), atOnce, "--data-dir", "/proc/holdfast")
	refused(t, start(filepath.Join(t.TempDir(), strings.Repeat("long", 25))), atOnce, "--data-dir", "too long")

	dir := harness.Dir(t)
	if err := os.Mkdir(dir, 0o000); err != nil {
		t.Fatal(err)
	}
	cmd := start(dir)
	if os.Geteuid() == 0 {
		asNobody(t, cmd, dir)
	}
	refused(t, cmd, atOnce, "--data-dir", "permission denied", dir)
}

// asNobody makes the program run as a user who may enter the directory that
// dir is in, and not dir.
func asNobody(t *testing.T, cmd *exec.Cmd, dir string) {
	t.Helper()
	const nobody = 65534
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
}

func TestEndpointsThatDoNotAnswer(t *testing.T) {
	start := func(endpoints string) *exec.Cmd {
		return harness.Command(t, "--listen=127.0.0.1:0", "--etcd="+endpoints, "--etcd-timeout=1s")
	}
	const within = atOnce + time.Second
	t.Run("nobody listens", func(t *testing.T) {
		refused(t, start("127.0.0.1:1,http://127.0.0.1:2"), within, "--etcd", "within 1s", "127.0.0.1:1", "127.0.0.1:2", "connection refused")
	})
	t.Run("nobody speaks", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0") // the system accepts, nobody reads
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		refused(t, start(l.Addr().String()), within, "--etcd", "within 1s", l.Addr().String())
	})
	t.Run("no such name", func(t *testing.T) {
		refused(t, start("etcd.invalid:2379"), within, "--etcd", "within 1s", "etcd.invalid")
	})
	t.Run("frozen", func(t *testing.T) {
		e := harness.StartEtcd(t, 1)
		e.Members[0].Pause()
		refused(t, start(e.Endpoints()), within, "--etcd", "within 1s")
	})
	t.Run("no majority", func(t *testing.T) {
		e := harness.StartEtcd(t, 3)
		e.Members[0].Kill()
		e.Members[1].Kill()
		refused(t, start(e.Endpoints()), within, "--etcd", "no majority", "within 1s")
	})
}
