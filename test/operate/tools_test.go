package operate_test

import (
	"os"
	"os/exec"
	"sync"
	"testing"
)

// tools are etcdctl and etcdutl, of the version of the server's etcd.
var tools toolbox

type toolbox struct {
	mu  sync.Mutex
	dir string // guarded by mu; "" until they are built
}

// in returns the directory that they are in.
func (b *toolbox) in(t *testing.T) string {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dir != "" {
		return b.dir
	}
	// So that go test knows an earlier result is out of date.
	if _, err := os.ReadFile(root + "/tools/etcd/go.mod"); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "etcd-tools")
	if err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", dir+"/", "go.etcd.io/etcd/etcdctl/v3", "go.etcd.io/etcd/etcdutl/v3")
	build.Dir = root + "/tools/etcd"
	if out, err := build.CombinedOutput(); err != nil {
		_ = os.RemoveAll(dir)
		t.Fatalf("build etcd's tools: %v\n%s", err, out)
	}
	b.dir = dir
	return dir
}

func (b *toolbox) remove() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dir != "" {
		_ = os.RemoveAll(b.dir)
	}
}

// bash runs commands with the tools, in a directory, and returns what they
// print.
func bash(t *testing.T, commands, dir string) string {
	t.Helper()
	cmd := exec.Command("bash", "-eu", "-o", "pipefail", "-c", commands)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+tools.in(t)+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s\n%v\n%s", commands, err, out)
	}
	return string(out)
}
