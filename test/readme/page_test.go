// Package readme_test does what README.md says: it runs its shell lines as
// they are written there, `make run`, and the script for others to take.
package readme_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// root is where a reader of the page stands.
const root = "../.."

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// block is a fenced block of the page.
type block struct {
	lang string
	text string
	line int // of the page, where it opens
}

// isShell reports whether it is there to be typed.
func (b block) isShell() bool {
	switch b.lang {
	case "bash", "sh", "shell", "console":
		return true
	}
	return false
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// blocks returns the fenced blocks of README.md.
func blocks(t *testing.T) []block {
	t.Helper()
	var all []block
	var open *block
	for i, line := range strings.Split(read(t, "README.md"), "\n") {
		lang, isFence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case isFence && open == nil:
			open = &block{lang: lang, line: i + 1}
		case isFence:
			all = append(all, *open)
			open = nil
		case open != nil:
			open.text += line + "\n"
		}
	}
	if open != nil {
		t.Fatalf("README.md:%d: a block that does not end", open.line)
	}
	return all
}

// needs fails the test where a program is missing that the page asks for.
func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Fatalf("this test needs %s, as a reader of the page does: %v", p, err)
		}
	}
}

func TestEveryBlockHasALanguage(t *testing.T) {
	for _, b := range blocks(t) {
		if !b.isShell() && b.lang != "json" && b.lang != "text" {
			t.Errorf("README.md:%d: got language %q, want bash, json or text", b.line, b.lang)
		}
	}
}

func TestProjectStructure(t *testing.T) {
	_, after, ok := strings.Cut(read(t, "README.md"), "## Project structure\n\n```text\n")
	tree, _, _ := strings.Cut(after, "```")
	if !ok || tree == "" {
		t.Fatal("README.md has no project structure")
	}
	listed := make(map[string]bool)
	for line := range strings.Lines(tree) {
		path := strings.Fields(line)[0]
		listed[path] = true
		if _, err := os.Stat(filepath.Join(root, path)); err != nil {
			t.Errorf("README.md lists %s: %v", path, err)
		}
	}
	for _, parent := range []string{"cmd", "internal", "test"} {
		entries, err := os.ReadDir(filepath.Join(root, parent))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if path := parent + "/" + e.Name(); e.IsDir() && !listed[path] {
				t.Errorf("README.md does not list %s", path)
			}
		}
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	dropped = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors returns what links into a page can name.
func anchors(text string) map[string]bool {
	found := make(map[string]bool)
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		name := dropped.ReplaceAllString(strings.ToLower(m[1]), "")
		found[strings.ReplaceAll(name, " ", "-")] = true
	}
	return found
}

func TestLinks(t *testing.T) {
	pages := []string{"README.md"}
	for _, pattern := range []string{"docs/*.md", "docs/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			pages = append(pages, strings.TrimPrefix(path, root+"/"))
		}
	}
	for _, page := range pages {
		for _, m := range link.FindAllStringSubmatch(read(t, page), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			path, anchor, _ := strings.Cut(m[1], "#")
			target := page
			if path != "" {
				target = filepath.Join(filepath.Dir(page), path)
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
			} else if anchor != "" && !anchors(read(t, target))[anchor] {
				t.Errorf("%s links to %s: there is no such heading", page, m[1])
			}
		}
	}
}
