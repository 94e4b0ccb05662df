package harness

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// wallClockFile names the variable with the file that a program of
// MovedProgram reads its offset from.
const wallClockFile = "TORTURE_WALL_CLOCK"

// WallClock is the wall clock of one Holdfast, which a test can move. Its
// monotonic clock goes on as it is, as when somebody sets the time of a
// machine.
type WallClock struct {
	t    testing.TB
	path string
}

// NewWallClock returns a clock that is right. Start a MovedProgram with its
// Env.
func NewWallClock(t testing.TB) *WallClock {
	t.Helper()
	c := &WallClock{t: t, path: filepath.Join(t.TempDir(), "offset")}
	c.Move(0)
	return c
}

// Env returns the variable to start the program with.
func (c *WallClock) Env() string { return wallClockFile + "=" + c.path }

// Move sets how far the clock is ahead of the right time, in whole seconds.
// The program follows within 10 ms or so; see its answers' Date.
func (c *WallClock) Move(ahead time.Duration) {
	c.t.Helper()
	next := c.path + ".next"
	if err := os.WriteFile(next, fmt.Appendf(nil, "%d", ahead/time.Second), 0o600); err != nil {
		c.t.Fatal(err)
	}
	if err := os.Rename(next, c.path); err != nil {
		c.t.Fatal(err)
	}
}

// moved is the Holdfast whose wall clock can be moved.
var moved struct {
	mu   sync.Mutex
	path string // guarded by mu
}

// MovedProgram returns the path of a Holdfast whose wall clock is moved by a
// WallClock. It is built at the first call, with a package time in which Now
// adds an offset: nothing from outside of a Go program can move the one clock
// without the other.
func MovedProgram(t testing.TB) string {
	t.Helper()
	moved.mu.Lock()
	defer moved.mu.Unlock()
	if moved.path != "" {
		return moved.path
	}
	path := filepath.Join(filepath.Dir(Program(t)), "holdfast-moved")
	cmd := exec.Command("go", "build", "-race", "-overlay", overlay(t), "-o", path, module+"cmd/api")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	moved.path = path
	return path
}

// overlay writes the files that differ, and the list of them for go build.
func overlay(t testing.TB) (list string) {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT", "GOMOD").Output()
	if err != nil {
		t.Fatal(err)
	}
	goroot, gomod, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	clock := filepath.Join(goroot, "src", "time", "time.go")
	source, err := os.ReadFile(clock)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	replace := make(map[string]string)
	for path, text := range map[string]string{
		clock: withOffset(t, string(source)),
		filepath.Join(filepath.Dir(gomod), "cmd", "api", "wallclock.go"): readsOffset,
	} {
		replace[path] = filepath.Join(dir, filepath.Base(path))
		if err := os.WriteFile(replace[path], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	list = filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return list
}

// withOffset adds the offset to package time's Now, and to nothing else.
func withOffset(t testing.TB, source string) string {
	t.Helper()
	const (
		imports = "import (\n\t\"errors\"\n"
		reads   = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
		offset  = "\n// WallOffset is added to the wall clock, in seconds.\nvar WallOffset atomic.Int64\n"
	)
	for _, text := range []string{imports, reads} {
		if strings.Count(source, text) != 1 {
			t.Fatalf("package time of this Go does not have %q once: the offset cannot be put in", text)
		}
	}
	source = strings.Replace(source, imports, imports+"\t\"sync/atomic\"\n", 1)
	return strings.Replace(source, reads, reads+"\tsec += WallOffset.Load()\n", 1) + offset
}

// readsOffset goes into the program. It does not serve before it has read the
// offset once.
const readsOffset = `package main

import (
	"os"
	"strconv"
	"time"
)

func init() {
	path := os.Getenv("` + wallClockFile + `")
	read := func() {
		text, err := os.ReadFile(path)
		if err != nil {
			return // the test has ended
		}
		n, err := strconv.ParseInt(string(text), 10, 64)
		if err != nil {
			panic(err)
		}
		time.WallOffset.Store(n)
	}
	read()
	go func() {
		for range time.Tick(10 * time.Millisecond) {
			read()
		}
	}()
}
`
