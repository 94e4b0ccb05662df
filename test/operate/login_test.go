package operate_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// The rights that the page gives are enough for everything, and for no more
// than the prefix.
func TestUserOfThePage(t *testing.T) {
	t.Parallel()
	m := startMember(t, nil)
	dir := t.TempDir()
	password := filepath.Join(dir, "etcd-password")
	if err := os.WriteFile(password, []byte("correct-horse-battery\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	bash(t, towards(t, m.url())+typed(t, addingUser)+`
		etcdctl user add root:secret
		etcdctl user grant-role root root
		etcdctl auth enable`, dir)

	login := []string{"--etcd=" + m.url(), "--etcd-user=holdfast", "--etcd-password-file=" + password}
	one, two := harness.Start(t, login...), harness.Start(t, login...)
	alice := on(t, one, "alice").Keeps("deploy", windows(time.Second, time.Second), two)
	bob := on(t, two, "bob").Waits("deploy", 20*time.Second, nil)
	silas := on(t, one, "silas").Acquires("silent", windows(time.Second, 0))
	s := listen(t, two, "deploy", "")
	s.tells("guarded", "alice")
	alice.owns(t)
	alice.stops()
	alice.p.Releases("deploy")
	if got := bob.Gets(); got <= alice.token {
		t.Errorf("got fencing token %d, want it larger than %d", got, alice.token)
	}
	if got := on(t, two, "dave").Waits("silent", 20*time.Second, nil).Gets(); got <= silas {
		t.Errorf("got fencing token %d, want it larger than %d", got, silas)
	}

	elsewhere := harness.Command(t, append(login, "--listen=127.0.0.1:0", "--prefix=/elsewhere/")...)
	if err := elsewhere.Start(); err != nil {
		t.Fatal(err)
	}
	watchdog := time.AfterFunc(generous, func() { _ = elsewhere.Process.Kill() })
	defer watchdog.Stop()
	_ = elsewhere.Wait() // the status says it
	if got := elsewhere.ProcessState.ExitCode(); got != 1 {
		t.Errorf("with another prefix: got status %d, want 1", got)
	}
}
