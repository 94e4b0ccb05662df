package operate_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(root + "/docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// blocks returns the page's blocks that are there to be typed.
func blocks(t *testing.T) []string {
	t.Helper()
	var all []string
	var open *strings.Builder
	for line := range strings.Lines(page(t)) {
		switch fence := strings.TrimSpace(line); {
		case open == nil && fence == "```bash":
			open = &strings.Builder{}
		case open != nil && fence == "```":
			all = append(all, open.String())
			open = nil
		case open != nil:
			open.WriteString(strings.TrimLeft(line, " "))
		}
	}
	return all
}

// How the page's blocks begin. Each is run by a test.
const (
	exporting         = "export ETCDCTL_ENDPOINTS="
	starting          = "holdfast --listen="
	addingUsers       = "etcdctl user add root "
	asking            = "etcdctl auth enable"
	loggingIn         = "export ETCDCTL_USER="
	defragmenting     = "ETCDCTL_ENDPOINTS=http://etcd-1:2379 etcdctl --command-timeout=10m defrag"
	makingRoom        = "revision="
	findingCorrupt    = "etcdctl alarm list"
	replacingCorrupt  = "bad="
	disarming         = "etcdctl alarm disarm"
	saving            = "ETCDCTL_ENDPOINTS=http://etcd-1:2379 etcdctl snapshot save"
	savingEmbedded    = "ETCDCTL_ENDPOINTS=unix"
	restoringMember   = "etcdutl snapshot restore holdfast.db \\\n"
	restoringEmbedded = "etcdutl snapshot restore holdfast.db --"
)

func TestEveryBlockIsRun(t *testing.T) {
	run := []string{
		exporting, starting, addingUsers, asking, loggingIn, defragmenting, makingRoom, findingCorrupt, replacingCorrupt, disarming,
		saving, savingEmbedded, restoringMember, restoringEmbedded,
	}
	for _, block := range blocks(t) {
		if !slices.ContainsFunc(run, func(begins string) bool { return strings.HasPrefix(block, begins) }) {
			t.Errorf("docs/operations.md: no test runs\n%s", block)
		}
	}
}

// typed returns the page's only block that begins like this. Pairs of old and
// new put the test's own places in.
func typed(t *testing.T, begins string, places ...string) string {
	t.Helper()
	var found []string
	for _, block := range blocks(t) {
		if strings.HasPrefix(block, begins) {
			found = append(found, block)
		}
	}
	if len(found) != 1 {
		t.Fatalf("docs/operations.md has %d blocks that begin with %q, want 1", len(found), begins)
	}
	for i := 0; i < len(places); i += 2 {
		if !strings.Contains(found[0], places[i]) {
			t.Fatalf("docs/operations.md: %q is not in\n%s", places[i], found[0])
		}
	}
	return strings.NewReplacer(places...).Replace(found[0])
}

// towards is the page's line that says where the members are, for this one.
func towards(t *testing.T, url string) string {
	t.Helper()
	return typed(t, exporting, "http://etcd-1:2379,http://etcd-2:2379,http://etcd-3:2379", url)
}

var (
	// message is what a line of the log begins with, in the sources.
	message = regexp.MustCompile(`\blog\.(?:Debug|Info|Warn|Error)(?:Context\(ctx, |\()"([^":]+)`)
	// row is a message in the page's table of them.
	row = regexp.MustCompile("(?m)^\\| (`[^|]+`) \\|.*\\|.*\\|$")
)

func TestLogLinesOfThePage(t *testing.T) {
	said := map[string]bool{}
	_, table, _ := strings.Cut(page(t), "\n## What the log says\n")
	for _, m := range row.FindAllStringSubmatch(table, -1) {
		for _, msg := range strings.Split(m[1], ", ") {
			msg, _, _ = strings.Cut(strings.Trim(msg, "`"), ":")
			said[msg] = true
		}
	}
	logged := map[string]bool{}
	for _, dir := range []string{"cmd", "internal"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, m := range message.FindAllStringSubmatch(string(text), -1) {
				logged[m[1]] = true
				if !said[m[1]] {
					t.Errorf("docs/operations.md does not say what %q of %s means", m[1], path)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for msg := range said {
		if !logged[msg] {
			t.Errorf("docs/operations.md explains %q, which nothing logs", msg)
		}
	}
}
