package readme_test

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-lock/holdfast/test/harness"
)

const script = "docs/examples/with-lock.sh"

// stage is where the script is tried: a mutex of its own, and a directory that
// its command can write into.
type stage struct {
	*testing.T
	api   *harness.Client
	url   string
	mutex string
	dir   string
}

func newStage(t *testing.T, r *harness.Replica, mutex string) *stage {
	t.Helper()
	return &stage{T: t, api: r.Client(), url: r.URL(), mutex: mutex, dir: t.TempDir()}
}

// run is the script, running.
type run struct {
	t    *testing.T
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	out  screen
}

// starts runs the script with a command for sh, in the directory of the stage.
// settings are variables.
func (s *stage) starts(command string, settings ...string) *run {
	s.Helper()
	path, err := filepath.Abs(filepath.Join(root, script))
	if err != nil {
		s.Fatal(err)
	}
	if _, err := os.ReadFile(path); err != nil { // so that go test knows what this depends on
		s.Fatal(err)
	}
	r := &run{t: s.T, cmd: exec.Command(path, s.mutex, "sh", "-c", command), done: make(chan struct{})}
	r.cmd.Dir = s.dir
	r.cmd.Env = append(append(cleanEnv(), "HOLDFAST_ADDRESS="+s.url), settings...)
	r.cmd.Stdout, r.cmd.Stderr = &r.out, &r.out
	r.cmd.WaitDelay = time.Second
	if err := r.cmd.Start(); err != nil {
		s.Fatal(err)
	}
	go func() {
		_ = r.cmd.Wait() // its status stays in ProcessState
		close(r.done)
	}()
	s.Cleanup(r.cleanup)
	return r
}

func (r *run) cleanup() {
	_ = r.cmd.Process.Signal(syscall.SIGTERM) // so that it ends its command
	select {
	case <-r.done:
	case <-time.After(20 * time.Second):
		_ = r.cmd.Process.Kill()
		<-r.done
	}
	if r.t.Failed() {
		r.t.Logf("script %d: %s\n%s", r.cmd.Process.Pid, r.cmd.ProcessState, r.out.text())
	}
}

func (r *run) signal(sig syscall.Signal) {
	r.t.Helper()
	if err := r.cmd.Process.Signal(sig); err != nil {
		r.t.Fatal(err)
	}
}

// ends fails the test unless the script ends with a status, in time. It
// returns how long that took.
func (r *run) ends(status int, within time.Duration) time.Duration {
	r.t.Helper()
	begin := time.Now()
	select {
	case <-r.done:
	case <-time.After(within + patience):
		r.t.Fatalf("the script has not ended after %v", within+patience)
	}
	took := time.Since(begin)
	if got := r.cmd.ProcessState.ExitCode(); got != status {
		r.t.Errorf("got status %d of the script, want %d", got, status)
	}
	if took > within {
		r.t.Errorf("the script ended after %v, want %v at most", took, within)
	}
	return took
}

// eventually fails the test when cond does not become true.
func (s *stage) eventually(what string, cond func() bool) {
	s.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// file returns what the command has written; "" where there is no file.
func (s *stage) file(name string) string {
	text, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil && !os.IsNotExist(err) {
		s.Fatal(err)
	}
	return string(text)
}

// files returns the names of what the command has written.
func (s *stage) files() []string {
	s.Helper()
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		s.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// says writes a file that the command waits for.
func (s *stage) says(name string) {
	s.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), nil, 0o600); err != nil {
		s.Fatal(err)
	}
}

// pid waits until the command has written its number, and returns it.
func (s *stage) pid() int {
	s.Helper()
	s.eventually("the command runs", func() bool { return strings.HasSuffix(s.file("pid"), "\n") })
	pid, err := strconv.Atoi(strings.TrimSpace(s.file("pid")))
	if err != nil {
		s.Fatal(err)
	}
	return pid
}

// sleeper is a command that writes its number and sleeps.
const sleeper = "echo $$ >pid; exec sleep 300"

// alive reports whether a process is there and has not ended.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := strings.Cut(string(stat), ") ")
	return err != nil || !strings.HasPrefix(state, "Z") // ended, and its parent has not looked yet
}

func (s *stage) path(of string) string { return "/v1/mutexes/" + s.mutex + of }

func (s *stage) get(of string) harness.Reply {
	s.Helper()
	return s.api.Must(s, "GET", s.path(of), nil).Want(s, 200)
}

// owner returns the contender that owns the mutex, "" for nobody, and the
// ownership.
func (s *stage) owner() (contender string, ownership map[string]any) {
	s.Helper()
	ownership, _ = s.get("").Body["owner"].(map[string]any)
	contender, _ = ownership["contender_id"].(string)
	return contender, ownership
}

// line returns the contenders that have a place.
func (s *stage) line() []string {
	s.Helper()
	waiters, _ := s.get("/waiters").Body["waiters"].([]any)
	names := []string{}
	for _, w := range waiters {
		names = append(names, w.(map[string]any)["contender_id"].(string))
	}
	return names
}

// ended returns how the last ownership ended.
func (s *stage) ended() string {
	s.Helper()
	history, _ := s.get("/history").Body["history"].([]any)
	if len(history) == 0 {
		return ""
	}
	return history[0].(map[string]any)["ended"].(string)
}

// anotherOwns makes somebody else the owner; it does not guard.
func (s *stage) anotherOwns() {
	s.Helper()
	s.api.Must(s, "POST", s.path("/acquire"), map[string]any{
		"contender_id": "another", "token": "secret-of-another", "ttl_ms": 60_000,
	}).Want(s, 200)
}

// broken breaks the ownership that is.
func (s *stage) broken() {
	s.Helper()
	_, o := s.owner()
	query := url.Values{"fencing_token": {fmt.Sprint(int64(o["fencing_token"].(float64)))}, "reason": {"a test"}}
	s.api.Must(s, "DELETE", s.path("/owner?"+query.Encode()), nil).Want(s, 200)
}
