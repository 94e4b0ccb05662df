package operate_test

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// past is what happened before the loss.
type past struct {
	owner  *party // of "kept", in the snapshot
	token  int64
	late   *party // of "late", later than the snapshot
	newest int64  // the largest fencing token that anybody was told
	over   time.Time
}

// lived has the service lock and unlock, with a backup in the middle.
func lived(t *testing.T, r *harness.Replica, back func() *backup) (past, *backup) {
	t.Helper()
	tools.in(t) // so that the snapshot takes no longer than the ttl
	const ttl = 5 * time.Second
	var p past
	p.owner, p.late = on(t, r, "kate"), on(t, r, "late")
	on(t, r, "dan").cycles("deploy", 3)
	sent := time.Now()
	p.token = p.owner.Acquires("kept", windows(ttl, 0))
	p.over = sent.Add(ttl)
	b := back()
	p.owner.Guards("kept", p.token) // so it owned then
	on(t, r, "dora").cycles("deploy", 30)
	p.newest = p.late.Acquires("late", long)
	return p, b
}

// cycles acquires and releases.
func (p *party) cycles(mutex string, n int) {
	p.t.Helper()
	for range n {
		*p = *p.anew()
		p.Acquires(mutex, nil)
		p.Releases(mutex)
	}
}

// goesOn fails unless the service, restored from the snapshot, goes on from
// there with larger fencing tokens.
func (p past) goesOn(t *testing.T, r *harness.Replica) {
	t.Helper()
	p.owner.at(t, r).Guards("kept", p.token)
	if got := p.late.at(t, r).calls("late", "guard", nil); got.Status != 409 || got.Code() != "not_owner" {
		t.Errorf("who acquired after the snapshot guards: got %d %s, want 409 not_owner", got.Status, got.Raw)
	}
	last := p.newest
	for _, mutex := range []string{"deploy", "late", "deploy", "kept"} {
		if mutex == "kept" {
			p.owner.at(t, r).Releases(mutex)
		}
		next := on(t, r, "nina").anew()
		next.token += fmt.Sprint(last)
		got := next.Acquires(mutex, nil)
		if got <= last {
			t.Errorf("%s: got fencing token %d, want it larger than %d", mutex, got, last)
		}
		last = got
		next.Releases(mutex)
	}
}

func TestTokensGrowAfterRestore(t *testing.T) {
	t.Parallel()
	m := startMember(t, nil)
	r := harness.Start(t, "--etcd="+m.url())
	p, b := lived(t, r, func() *backup {
		return backUp(t, saving, "http://etcd-1:2379", m.url())
	})
	r.Kill()
	m.Members[0].Kill()
	time.Sleep(time.Until(p.over)) // the windows of those in the snapshot

	t.Run("cluster", func(t *testing.T) {
		e := b.restoredCluster(t, typed(t, restoringMember))
		p.goesOn(t, harness.Start(t, "--etcd="+e.Endpoints()))
	})
	t.Run("embedded", func(t *testing.T) {
		dir := harness.Dir(t)
		b.restored(typed(t, restoringEmbedded, "/var/lib/holdfast", dir))
		p.goesOn(t, harness.Start(t, "--data-dir="+dir))
	})
	t.Run("without --bump-revision", func(t *testing.T) {
		e := b.restoredCluster(t, typed(t, restoringMember, "--bump-revision 1000000000 --mark-compacted", ""))
		got := on(t, harness.Start(t, "--etcd="+e.Endpoints()), "nina").Acquires("deploy", nil)
		if got > p.newest {
			t.Errorf("got fencing token %d, which is larger than %d: the other tests show nothing", got, p.newest)
		}
	})
}

func TestTokensGrowAfterRestoreOfEmbedded(t *testing.T) {
	t.Parallel()
	dir := harness.Dir(t)
	r := harness.Start(t, "--data-dir="+dir)
	p, b := lived(t, r, func() *backup {
		return backUp(t, savingEmbedded, "/var/lib/holdfast", dir)
	})
	r.Kill()
	wiped(t, dir)
	time.Sleep(time.Until(p.over))
	t.Run("embedded", func(t *testing.T) {
		b.restored(typed(t, restoringEmbedded, "/var/lib/holdfast", dir))
		p.goesOn(t, r.Again())
	})
	t.Run("cluster", func(t *testing.T) {
		e := b.restoredCluster(t, typed(t, restoringMember))
		p.goesOn(t, harness.Start(t, "--etcd="+e.Endpoints()))
	})
}

// restoredCluster starts three members on what the page's command, typed for
// each of them, makes of the backup.
func (b *backup) restoredCluster(t *testing.T, command string) *harness.Etcd {
	t.Helper()
	return harness.StartEtcd(t, 3, func(settings map[string]any) {
		b.restored(restoring(t, command, settings))
	})
}

// restoring is the page's command for a member with these settings: "on each
// with its own name and address".
func restoring(t *testing.T, command string, settings map[string]any) string {
	t.Helper()
	for _, name := range []string{"data-dir", "name", "initial-cluster", "initial-advertise-peer-urls"} {
		flag := regexp.MustCompile("--" + name + ` \S+`)
		if len(flag.FindAllString(command, -1)) != 1 {
			t.Fatalf("docs/operations.md: not one --%s in\n%s", name, command)
		}
		command = flag.ReplaceAllString(command, fmt.Sprintf("--%s %v", name, settings[name]))
	}
	return command
}
