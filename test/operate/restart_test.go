package operate_test

import (
	"strings"
	"testing"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// The page says to stop every replica before a restore. One that was left
// running believes things that etcd does not know any more: it ends as soon as
// it sees that, and whatever supervises it starts it anew.
func TestRestartAfterRestoreUnderfoot(t *testing.T) {
	t.Parallel()
	m := startMember(t, nil)
	r := harness.Start(t, "--etcd="+m.url())
	ralph := on(t, r, "ralph")
	token := ralph.Acquires("deploy", long)
	b := backUp(t, saving, "http://etcd-1:2379", m.url())
	ralph.Releases("deploy") // after the snapshot
	xena := on(t, r, "xena")
	newest := xena.Acquires("deploy", long)

	m.Members[0].Kill()
	wiped(t, m.dir())
	b.restored(restoring(t, typed(t, restoringMember), m.settings))
	m.Members[0] = m.Members[0].Again()
	if got := r.Wait(generous); got != 1 || !strings.Contains(r.Log(), "restored from a snapshot") {
		t.Fatalf("got exit status %d, want 1, and why", got)
	}
	r = r.Again()
	ralph, xena = ralph.at(t, r), xena.at(t, r)
	ralph.Guards("deploy", token)
	if got := xena.calls("deploy", "guard", nil); got.Status != 409 || got.Code() != "not_owner" {
		t.Errorf("xena, who acquired after the snapshot, guards: got %d %s, want 409 not_owner", got.Status, got.Raw)
	}
	ralph.Releases("deploy")
	if got := xena.anew().Acquires("deploy", nil); got <= newest {
		t.Errorf("got fencing token %d, want it larger than %d", got, newest)
	}
}
