package harness

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// startTimeout is how long a process may take until it is ready: a second or
// less on a quiet machine, much more when every core is busy with other tests.
const startTimeout = 30 * time.Second

// Process is a program that a test started. Its methods fail the test when
// they cannot do what they say.
type Process struct {
	name string
	t    testing.TB
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	away atomic.Bool   // the test paused it, or told it to end

	mu    sync.Mutex
	lines []string      // guarded by mu; what it wrote, both streams
	more  chan struct{} // guarded by mu; closed and replaced with every line
}

// launch starts a program, and ends it with the test.
func launch(t testing.TB, name string, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{name: name, t: t, cmd: cmd, done: make(chan struct{}), more: make(chan struct{})}
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = in, in
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	endWithParent(cmd.SysProcAttr)
	err = cmd.Start()
	_ = in.Close()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	go p.collect(out)
	t.Cleanup(p.cleanup)
	return p
}

func (p *Process) collect(out *os.File) {
	defer close(p.done)
	r := bufio.NewReader(out)
	for {
		line, err := r.ReadString('\n')
		if line != "" {
			p.mu.Lock()
			p.lines = append(p.lines, strings.TrimSuffix(line, "\n"))
			close(p.more)
			p.more = make(chan struct{})
			p.mu.Unlock()
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			p.t.Logf("%s: read its log: %v", p.name, err)
			break
		}
	}
	_ = out.Close()
	_ = p.cmd.Wait() // its status stays in ProcessState
}

func (p *Process) cleanup() {
	p.Kill()
	log := p.Log()
	for _, bad := range []string{"WARNING: DATA RACE", "\npanic: ", "\nfatal error: "} {
		if strings.Contains("\n"+log, bad) {
			p.t.Errorf("%s: its log has %q", p.name, strings.TrimSpace(bad))
		}
	}
	if p.t.Failed() {
		p.t.Logf("log of %s, process %d:\n%s", p.name, p.PID(), tail(withoutLooks(log), 20_000))
	}
}

// withoutLooks leaves out the reads that succeeded: tests look hundreds of times
// a second, and would see nothing else of what happened before.
func withoutLooks(log string) string {
	var b strings.Builder
	for line := range strings.Lines(log) {
		if !strings.Contains(line, `"method":"GET"`) || !strings.Contains(line, `"status":200`) {
			b.WriteString(line)
		}
	}
	return b.String()
}

func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return "…" + s[len(s)-n:]
}

// Log returns what the process wrote so far.
func (p *Process) Log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n")
}

// await returns the first line for which match is true. It fails the test
// when the process ends, or takes longer than the start of one may.
func (p *Process) await(what string, match func(line string) bool) string {
	p.t.Helper()
	timeout := time.After(startTimeout)
	for seen := 0; ; {
		p.mu.Lock()
		lines, more := p.lines[seen:], p.more
		p.mu.Unlock()
		for _, line := range lines {
			if match(line) {
				return line
			}
		}
		seen += len(lines)
		select {
		case <-more:
		case <-p.done:
			p.t.Fatalf("%s: ended before it was %s: %s", p.name, what, p.Log())
		case <-timeout:
			p.t.Fatalf("%s: not %s after %v", p.name, what, startTimeout)
		}
	}
}

// Signal sends a signal to the process.
func (p *Process) Signal(s os.Signal) {
	p.t.Helper()
	p.away.Store(s != syscall.SIGCONT)
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("%s: %v: %v", p.name, s, err)
	}
}

// Pause freezes the process (SIGSTOP); its sockets stay open. It returns when
// nothing of it runs any more: on a busy machine a process goes on for a while
// after the signal, and answers.
func (p *Process) Pause() {
	p.t.Helper()
	p.Signal(syscall.SIGSTOP)
	for running(p.PID()) {
		time.Sleep(time.Millisecond)
	}
}

// running reports whether a thread of the process is not stopped. It is false
// where there is no /proc to tell.
func running(pid int) bool {
	stats, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	return slices.ContainsFunc(stats, func(path string) bool {
		text, err := os.ReadFile(path)
		if err != nil {
			return false // it has ended
		}
		// The state comes after the name, which is in brackets and may contain
		// any.
		state := text[bytes.LastIndexByte(text, ')')+2]
		return state != 'T' && state != 'Z'
	})
}

// Resume ends a Pause (SIGCONT).
func (p *Process) Resume() { p.t.Helper(); p.Signal(syscall.SIGCONT) }

// Terminate asks the process to end (SIGTERM); see Wait.
func (p *Process) Terminate() { p.t.Helper(); p.Signal(syscall.SIGTERM) }

// Kill ends the process as it is (SIGKILL), and waits until it is gone. It may
// have ended before.
func (p *Process) Kill() {
	p.away.Store(true)
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Wait returns the exit status, -1 after a signal, when the process ends
// within the time given.
func (p *Process) Wait(within time.Duration) int {
	p.t.Helper()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(within):
		p.t.Fatalf("%s: has not ended within %v", p.name, within)
		return 0
	}
}

// Ended reports whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// gone reports whether it has nothing to say, by the will of the test.
func (p *Process) gone() bool { return p.away.Load() }

// PID returns the number of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }
