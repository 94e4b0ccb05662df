package readme_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// walk goes through the page, block by block.
type walk struct {
	t      *testing.T
	left   []block
	env    []string
	shells map[string]*shell
}

// next takes the next block for the shell, which must begin as given.
func (w *walk) next(begins string) block {
	w.t.Helper()
	for len(w.left) > 0 && !w.left[0].isShell() {
		w.left = w.left[1:]
	}
	if len(w.left) == 0 {
		w.t.Fatalf("README.md has no block left that begins with %q", begins)
	}
	b := w.left[0]
	w.left = w.left[1:]
	if !strings.HasPrefix(b.text, begins) {
		w.t.Fatalf("README.md:%d: got %q, want a block that begins with %q", b.line, b.text, begins)
	}
	return b
}

func (w *walk) shell(name string) *shell {
	w.t.Helper()
	if w.shells[name] == nil {
		w.shells[name] = newShell(w.t, name, w.env...)
	}
	return w.shells[name]
}

// begins types the next block and does not wait for it.
func (w *walk) begins(in, begins string) {
	w.t.Helper()
	w.shell(in).enter(w.next(begins).text)
}

// runs types the next block, and holds what it prints against want, regular
// expressions, and against the JSON that follows in the page.
func (w *walk) runs(in, begins string, want ...string) string {
	w.t.Helper()
	b := w.next(begins)
	s := w.shell(in)
	s.enter(b.text)
	within := patience
	if strings.HasPrefix(begins, "go ") {
		within = 10 * time.Minute // it compiles
	}
	got := s.answer(within)
	for _, re := range want {
		if !regexp.MustCompile(re).MatchString(got) {
			w.t.Errorf("README.md:%d: got %q, want %s", b.line, got, re)
		}
	}
	if len(w.left) > 0 && w.left[0].lang == "json" {
		sameFields(w.t, w.left[0], got)
	}
	return got
}

// sameFields fails the test when the answer has other fields than the page
// shows.
func sameFields(t *testing.T, shown block, answer string) {
	t.Helper()
	var got, want any
	if err := json.Unmarshal([]byte(shown.text), &want); err != nil {
		t.Fatalf("README.md:%d: %v", shown.line, err)
	}
	at := max(0, strings.Index(answer, "{"))
	if err := json.NewDecoder(strings.NewReader(answer[at:])).Decode(&got); err != nil {
		t.Fatalf("got %q, want JSON: %v", answer, err)
	}
	compareFields(t, shown.line, "", got, want)
}

func compareFields(t *testing.T, line int, path string, got, want any) {
	t.Helper()
	g, _ := got.(map[string]any)
	w, _ := want.(map[string]any)
	for name := range w {
		if _, ok := g[name]; !ok {
			t.Errorf("README.md:%d: the answer has no %s%s", line, path, name)
		}
	}
	for name := range g {
		if _, ok := w[name]; !ok {
			t.Errorf("README.md:%d: the answer has %s%s, the page has not", line, path, name)
			continue
		}
		compareFields(t, line, path+name+".", g[name], w[name])
	}
}

// sees waits until a shell has printed what matches.
func (w *walk) sees(in, want string) {
	w.t.Helper()
	w.shell(in).out.await(w.t, regexp.MustCompile(want), patience)
}

func TestShellLines(t *testing.T) {
	needs(t, "bash", "curl", "make")
	w := &walk{t: t, left: blocks(t), shells: make(map[string]*shell)}
	w.next("make run\n") // which TestMakeRun runs; this one is with the race detector
	r := harness.Start(t, "--data-dir="+harness.Dir(t))
	w.env = []string{redirect(t, r.Addr())}
	api := r.Client()

	w.runs("one", `curl -si -d '{"contender_id":"alice"`, `^HTTP/1.1 200 OK`)
	w.runs("one", "while curl")
	w.runs("two", `curl -si -d '{"contender_id":"bob"`, `^HTTP/1.1 423 Locked`)
	w.begins("two", `curl -s -d '{"contender_id":"bob"`)
	for api.Must(t, "GET", "/v1/mutexes/deploy", nil).Int("waiters") == 0 {
		time.Sleep(10 * time.Millisecond) // until bob waits; the test's own time-out ends this
	}
	w.runs("one", "curl -s http://127.0.0.1:8080/v1/mutexes/deploy\n",
		`"owner":\{[^}]*"contender_id":"alice"`, `"waiters":1\b`, // the mutex
		`"waiters":\[\{"contender_id":"bob"[^}]*\},"place":1`, // the line
		`"history":\[\]`, `"mutexes":\[\{[^]]*"name":"deploy"`)
	w.begins("three", "curl -sN")
	w.sees("three", `event: guarded`) // by the loop

	w.runs("one", `curl -s -d '{"contender_id":"alice","token":"alices-secret-01"}'`, `\{"released":true\}`)
	bob := w.shell("two").answer(patience)
	if !regexp.MustCompile(`"contender_id":"bob","fencing_token":\d+`).MatchString(bob) {
		t.Errorf("got %q in the second shell, want bob's ownership", bob)
	}
	w.sees("three", `(?s)event: released\ndata: \{"contender_id":"alice".*event: acquired\ndata: \{"contender_id":"bob"`)
	w.shell("one").enter("wait\n")
	w.shell("one").answer(patience) // the loop has ended

	w.runs("one", "fence=", `(?s)"current":true.*"current":false`)
	w.runs("one", "curl -s -X DELETE", `"contender_id":"bob","ended":"broken"`, `"reason":"the runner is gone"`)
	w.runs("one", "docs/examples/with-lock.sh deploy", `deploying with fencing token \d+\n`)
	if got := api.Must(t, "GET", "/v1/mutexes/deploy", nil).String("state"); got != "idle" {
		t.Errorf("got state %q after the script, want idle", got)
	}
	w.runs("one", "curl -s -X PUT", `"declared":true`, `"transition_ms":2000,"ttl_ms":10000`)

	program := filepath.Join(root, "bin", "holdfast")
	_ = os.Remove(program)
	w.runs("one", "go build -o bin/holdfast")
	if _, err := os.Stat(program); err != nil {
		t.Error(err)
	}
	for _, b := range w.left {
		if b.isShell() {
			t.Errorf("README.md:%d: this block is not run by the test:\n%s", b.line, b.text)
		}
	}
}
