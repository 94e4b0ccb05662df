// Package harness starts whole programs for tests: Holdfast itself, built once
// with the race detector, and etcd members, as processes on real sockets,
// which a test can stop, freeze, kill and start again. Every process ends with
// its test; its log is shown when the test failed.
//
//	func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }
//
//	r := harness.Start(t, "--data-dir="+harness.Dir(t))
//	alice := r.Client()
//	got := alice.Must(t, "POST", "/v1/mutexes/deploy/acquire", nil)
//
// A Cluster is several of both, with links that can break:
//
//	c := harness.StartCluster(t, harness.ClusterConfig{Replicas: 2, Members: 3})
//	c.CutOffMember(c.Etcd.Leader())
//	c.AwaitEtcd() // has another leader
package harness

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/holdfast-lock/holdfast/"

// Main runs the tests of a package and removes what was built for them. It
// fails when a Client was given an answer that does not fit the contract,
// whatever the test that asked made of it. Call it in TestMain.
func Main(m *testing.M) int {
	defer programs.remove()
	status := m.Run()
	for _, err := range misfits.all() {
		fmt.Fprintln(os.Stderr, "FAIL:", err)
		status = 1
	}
	return status
}

// programs are the binaries of this run.
var programs = builds{paths: make(map[string]string)}

type builds struct {
	mu    sync.Mutex
	dir   string            // guarded by mu
	paths map[string]string // guarded by mu
}

// program returns the path of a program of this module, built with flags.
func (b *builds) program(t testing.TB, pkg string, flags ...string) string {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if path, ok := b.paths[pkg]; ok {
		return path
	}
	if b.dir == "" {
		dir, err := os.MkdirTemp("", "holdfast-bin")
		if err != nil {
			t.Fatal(err)
		}
		// So that a program can also be started as another user.
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		b.dir = dir
	}
	noticeSources(t)
	path := filepath.Join(b.dir, filepath.Base(pkg))
	args := append(append([]string{"build"}, flags...), "-o", path, module+pkg)
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		t.Fatalf("go %v: %v\n%s", args, err, out)
	}
	b.paths[pkg] = path
	return path
}

// noticeSources looks into every folder that programs are built from. A test
// that only starts a program does not import it; by what it looked at, go test
// knows that an earlier result is out of date.
func noticeSources(t testing.TB) {
	t.Helper()
	mod, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		t.Fatal(err)
	}
	gomod := strings.TrimSpace(string(mod))
	if _, err := os.Stat(gomod); err != nil {
		t.Fatal(err)
	}
	root := filepath.Dir(gomod)
	for _, folder := range []string{"cmd", "internal", "test"} {
		nothing := func(_ string, _ fs.DirEntry, err error) error { return err }
		if err := filepath.WalkDir(filepath.Join(root, folder), nothing); err != nil {
			t.Fatal(err)
		}
	}
}

func (b *builds) remove() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dir != "" {
		_ = os.RemoveAll(b.dir)
	}
}

// Program returns the path of the Holdfast binary, built with the race
// detector at the first call.
func Program(t testing.TB) string {
	t.Helper()
	return programs.program(t, "cmd/api", "-race")
}

// Dir returns a new directory whose path is short enough for a unix socket in
// it, which that of testing.T.TempDir may not be.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "hf")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(fmt.Errorf("remove a directory of the test: %w", err))
		}
	})
	return filepath.Join(dir, "data")
}
