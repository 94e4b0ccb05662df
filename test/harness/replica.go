package harness

import (
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// Replica is a running Holdfast.
type Replica struct {
	*Process
	addr    string
	program string
	env     []string // besides that of the tests
	args    []string
	began   time.Time
	took    time.Duration
}

// Start starts Holdfast on a free port of loopback and returns when it serves.
// args come after --listen, and win over it.
func Start(t testing.TB, args ...string) *Replica {
	t.Helper()
	r := Replica{program: Program(t), args: append([]string{"--listen=127.0.0.1:0"}, args...)}
	started := r.launched(t, "holdfast")
	started.serves()
	return started
}

// launched returns the replica as a new process.
func (r Replica) launched(t testing.TB, name string) *Replica {
	t.Helper()
	cmd := command(r.program, r.args)
	cmd.Env = append(cmd.Env, r.env...)
	r.began = time.Now()
	r.Process = launch(t, name, cmd)
	return &r
}

// serves waits until the replica serves.
func (r *Replica) serves() {
	r.t.Helper()
	line := r.await("listening", func(line string) bool { return logged(line).Msg == "listening" })
	r.took = time.Since(r.began)
	r.addr = logged(line).Addr
}

// Command returns a Holdfast that is not started, without any HOLDFAST_
// variable of the tests' own environment.
func Command(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	return command(Program(t), args)
}

func command(program string, args []string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "HOLDFAST_") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	// By default the race detector makes every end take a second longer.
	cmd.Env = append(cmd.Env, "GORACE=atexit_sleep_ms=0")
	return cmd
}

// Again starts a replica that has ended once more, on the same address and
// with the same flags.
func (r *Replica) Again() *Replica {
	r.t.Helper()
	again := r.relaunched()
	again.serves()
	return again
}

// relaunched is Again, and does not wait until it serves.
func (r *Replica) relaunched() *Replica {
	r.t.Helper()
	r.Wait(startTimeout)
	again := *r
	again.args = append(slices.Clone(r.args), "--listen="+r.addr)
	return again.launched(r.t, r.name)
}

// Addr returns host:port.
func (r *Replica) Addr() string { return r.addr }

// URL returns the address for clients.
func (r *Replica) URL() string { return "http://" + r.addr }

// StartTook returns how long it took from the start to serving.
func (r *Replica) StartTook() time.Duration { return r.took }

// Client returns a new client of the replica, with connections of its own.
func (r *Replica) Client() *Client { return NewClient(r.URL()) }

// entry is a line of the log.
type entry struct{ Msg, Addr string }

func logged(line string) entry {
	var e entry
	_ = json.Unmarshal([]byte(line), &e) // what is not JSON is not an entry
	return e
}
