package readme_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long a line may take that does not compile anything. It is
// there to end a test that hangs; a quiet machine needs a hundredth.
const patience = time.Minute

// shell is a bash that a reader types into.
type shell struct {
	t     *testing.T
	name  string
	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   screen
	typed int // blocks so far
}

// newShell opens a shell in the root of the repository, with the variables
// given, and without any HOLDFAST_ variable of the tests' own environment. It
// is closed with the test, with whatever runs in it.
func newShell(t *testing.T, name string, env ...string) *shell {
	t.Helper()
	s := &shell{t: t, name: name, cmd: exec.Command("bash")}
	s.cmd.Dir = root
	s.cmd.Env = append(cleanEnv(), env...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // as a terminal does
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.out
	s.cmd.WaitDelay = time.Second // for what stays in the background
	var err error
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
		_ = s.cmd.Wait()
		if t.Failed() {
			t.Logf("shell %s:\n%s", name, s.out.text())
		}
	})
	return s
}

func cleanEnv() []string {
	var env []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "HOLDFAST_") && !strings.HasPrefix(kv, "LOCK_") {
			env = append(env, kv)
		}
	}
	return env
}

// enter types a block. It returns at once.
func (s *shell) enter(text string) {
	s.t.Helper()
	s.typed++
	line := fmt.Sprintf("%sprintf '\\n[%d] status %%s\\n' $?\n", text, s.typed)
	if _, err := io.WriteString(s.stdin, line); err != nil {
		s.t.Fatalf("shell %s: %v", s.name, err)
	}
}

var prompts = regexp.MustCompile(`\n\[(\d+)\] status (\d+)\n`)

// answer returns what the block typed last has printed, when it has ended with
// status 0. What runs in the background may print there, too.
func (s *shell) answer(within time.Duration) string {
	s.t.Helper()
	prompt := fmt.Sprintf("\n[%d] status ", s.typed)
	text := s.out.await(s.t, regexp.MustCompile(regexp.QuoteMeta(prompt)+`\d+\n`), within)
	before, after, _ := strings.Cut(text, prompt)
	if all := prompts.FindAllStringIndex(before, -1); len(all) > 0 {
		before = before[all[len(all)-1][1]:]
	}
	if status, _, _ := strings.Cut(after, "\n"); status != "0" {
		s.t.Fatalf("shell %s: got status %s, want 0:\n%s", s.name, status, before)
	}
	return before
}

// interrupt is Ctrl-C.
func (s *shell) interrupt() {
	s.t.Helper()
	if err := syscall.Kill(-s.cmd.Process.Pid, syscall.SIGINT); err != nil {
		s.t.Fatal(err)
	}
}

// screen is what was printed.
type screen struct {
	mu  sync.Mutex
	buf strings.Builder // guarded by mu
}

// Write implements io.Writer.
func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

func (s *screen) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

// await returns the text when want is in it.
func (s *screen) await(t *testing.T, want *regexp.Regexp, within time.Duration) string {
	t.Helper()
	for end := time.Now().Add(within); ; time.Sleep(10 * time.Millisecond) {
		text := s.text()
		if want.MatchString(text) {
			return text
		}
		if time.Now().After(end) {
			t.Fatalf("got %q within %v, want %s", text, within, want)
		}
	}
}

// redirect returns the variable with which curl, asked for the address that
// the page names, reaches addr: the lines run as they are written, and the
// service is on a free port.
func redirect(t *testing.T, addr string) string {
	t.Helper()
	home := t.TempDir()
	line := fmt.Sprintf("connect-to = \"127.0.0.1:8080:%s\"\n", addr)
	if err := os.WriteFile(filepath.Join(home, ".curlrc"), []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	return "CURL_HOME=" + home
}
