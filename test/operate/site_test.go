package operate_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// member is an etcd of one member whose settings the test knows.
type member struct {
	*harness.Etcd
	settings map[string]any
}

// startMember starts one with these settings besides its own.
func startMember(t *testing.T, more map[string]any) *member {
	t.Helper()
	m := &member{}
	m.Etcd = harness.StartEtcd(t, 1, func(settings map[string]any) {
		for name, value := range more {
			settings[name] = value
		}
		m.settings = settings
	})
	return m
}

func (m *member) dir() string { return m.settings["data-dir"].(string) }

// url is where clients find it.
func (m *member) url() string { return "http://" + m.Members[0].Addr }

// backup is a snapshot in a file.
type backup struct {
	t    *testing.T
	path string
}

// backUp does what the page says, on the member at url, in a shell that knows
// the cluster already.
func backUp(t *testing.T, begins, place, url string) *backup {
	t.Helper()
	dir := t.TempDir()
	out := bash(t, typed(t, exporting)+typed(t, begins, place, url), dir)
	if !strings.Contains(out, "saved") {
		t.Fatalf("got %q, want it to say that it saved", out)
	}
	return &backup{t: t, path: filepath.Join(dir, "holdfast.db")}
}

// restored runs the commands where the backup is.
func (b *backup) restored(commands string) {
	b.t.Helper()
	bash(b.t, commands, filepath.Dir(b.path))
}

// wiped removes a data directory.
func wiped(t *testing.T, dir string) {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
}
