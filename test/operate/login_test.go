package operate_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// etcd is made to ask for a login while the replicas serve, in the page's
// order. The rights that the page gives are enough for everything, and for no
// more than the prefix; those of root are enough for the operator.
func TestUserOfThePage(t *testing.T) {
	t.Parallel()
	m := startMember(t, nil)
	dir := t.TempDir()
	for name, password := range map[string]string{"etcd-password": "correct-horse-battery", "root-password": "secret"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(password+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	forgotten := harness.Start(t, "--etcd="+m.url())
	bash(t, towards(t, m.url())+typed(t, addingUsers), dir)
	login := []string{"--etcd=" + m.url(), "--etcd-user=holdfast", "--etcd-password-file=" + filepath.Join(dir, "etcd-password")}
	one, two := harness.Start(t, login...), harness.Start(t, login...)
	alice := on(t, one, "alice").Keeps("deploy", windows(time.Second, time.Second), two)
	bash(t, towards(t, m.url())+typed(t, asking), dir)
	alice.owns(t)
	if got := on(t, forgotten, "fred").calls("idle", "acquire", nil); got.Status != 503 {
		t.Errorf("at a replica without a login: got %d %s, want 503", got.Status, got.Raw)
	}

	bob := on(t, two, "bob").Waits("deploy", 20*time.Second, nil)
	silas := on(t, one, "silas").Acquires("silent", windows(time.Second, 0))
	s := listen(t, two, "deploy", "")
	s.tells("guarded", "alice")
	operates(t, m, dir)
	alice.owns(t)
	alice.stops()
	alice.p.Releases("deploy")
	if got := bob.Gets(); got <= alice.token {
		t.Errorf("got fencing token %d, want it larger than %d", got, alice.token)
	}
	if got := on(t, two, "dave").Waits("silent", 20*time.Second, nil).Gets(); got <= silas {
		t.Errorf("got fencing token %d, want it larger than %d", got, silas)
	}
	isRefused(t, "for another prefix", "permission denied", append(login, "--prefix=/elsewhere/")...)
	isRefused(t, "without a login", "user name is empty", "--etcd="+m.url())
}

// operates types what the page has for the operator of such an etcd.
func operates(t *testing.T, m *member, dir string) {
	t.Helper()
	const place = "http://etcd-1:2379"
	bash(t, towards(t, m.url())+typed(t, loggingIn)+
		typed(t, findingCorrupt)+
		typed(t, makingRoom)+
		typed(t, defragmenting, place, m.url())+
		typed(t, saving, place, m.url())+
		"etcdctl endpoint health --cluster", dir)
}

// isRefused fails unless a start with these flags ends, and says why.
func isRefused(t *testing.T, what, why string, args ...string) {
	t.Helper()
	cmd := harness.Command(t, append(args, "--listen=127.0.0.1:0")...)
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	watchdog := time.AfterFunc(generous, func() { _ = cmd.Process.Kill() })
	defer watchdog.Stop()
	_ = cmd.Wait() // the status says it
	if got := cmd.ProcessState.ExitCode(); got != 1 || !strings.Contains(said.String(), why) {
		t.Errorf("a start %s: got status %d and %q, want 1 and %q", what, got, said.String(), why)
	}
}
