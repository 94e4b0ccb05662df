package etcdstore

import (
	"testing"

	"github.com/holdfast-lock/holdfast/internal/service"
)

func testView() *view {
	v := newView("me", newWindowClock())
	v.tend = func(*mutex) {}
	v.dueSoon, v.buried, v.roused = func() {}, func() {}, func() {}
	v.unreadable = func(error) {}
	v.replicas["me"] = sign{alive: true, rev: 1}
	return v
}

// What a transaction of ours wrote is in the view before the watch brings it,
// and what the watch then still brings is older.
func TestOldNewsChangesNothing(t *testing.T) {
	const pair = service.Pair("p")
	place := &entryRecord{header: current, Present: true, Replica: "me"}
	for _, tt := range []struct {
		name string
		does func(v *view, m *mutex)
		want bool // a place is there
	}{
		{"a place that we deleted is not revived", func(v *view, m *mutex) {
			v.buryEntry(m, pair, 20)
			v.applyEntry(m, pair, place, 15)
		}, false},
		{"nor when we never saw it", func(v *view, m *mutex) {
			v.applyEntry(m, pair, nil, 11)
			v.buryEntry(m, pair, 20)
			v.applyEntry(m, pair, place, 15)
		}, false},
		{"a newer one stays although an old deletion arrives", func(v *view, m *mutex) {
			v.buryEntry(m, pair, 20)
			v.applyEntry(m, pair, place, 25)
			v.applyEntry(m, pair, nil, 20)
		}, true},
		{"an old write does not replace a newer one", func(v *view, m *mutex) {
			v.applyEntry(m, pair, &entryRecord{header: current, Joined: 10}, 20)
			v.applyEntry(m, pair, nil, 15)
		}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := testView()
			m := v.at("deploy")
			v.applyEntry(m, pair, place, 10)
			tt.does(v, m)
			if got := m.entries[pair] != nil; got != tt.want || got != (len(m.line) == 1) {
				t.Errorf("got place %v in a line of %d, want %v", got, len(m.line), tt.want)
			}
			// Once the watch has passed all that, nothing of it is left.
			v.applyEntry(m, pair, nil, 30)
			v.advance(30)
			if len(v.mutexes) != 0 || len(v.ahead) != 0 {
				t.Errorf("got %d mutexes and %d ahead left, want none", len(v.mutexes), len(v.ahead))
			}
		})
	}
}

// A mutex is declared, removed, and owned under the same name before the watch
// has brought any of that.
func TestANewMutexOutlivesARemovedOne(t *testing.T) {
	v := testView()
	m := v.at("deploy")
	v.applyDeclared(m, &declaredRecord{header: current}, 10)
	v.applyDeclared(m, nil, 11)
	v.sweep(m)
	v.applyOwner(v.at("deploy"), &ownerRecord{header: current, Pair: "p"}, 12, 1)
	for _, rev := range []int64{10, 11, 12} {
		v.advance(rev)
		if m := v.mutexes["deploy"]; m == nil || m.owner == nil {
			t.Fatalf("got no owner once the watch is at %d", rev)
		}
	}
}

func TestAnOwnerOfOldIsNotRevived(t *testing.T) {
	v := testView()
	m := v.at("deploy")
	v.applyOwner(m, &ownerRecord{header: current, Pair: "p"}, 10, 1)
	v.applyOwner(m, nil, 20, 0)
	v.applyOwner(m, &ownerRecord{header: current, Pair: "p", Fence: 10}, 15, 1)
	if m.owner != nil {
		t.Errorf("got owner %+v, want nobody", m.owner.rec)
	}
	if v.leases[1] != 0 || v.active != 0 {
		t.Errorf("got %d keys on the lease and %d active, want none", v.leases[1], v.active)
	}
}

// An answer of etcd's comes later than the watch has brought the end of what it
// tells of.
func TestALateAnswerRevivesNothing(t *testing.T) {
	for name, late := range map[string]func(v *view, m *mutex){
		"an owner":      func(v *view, m *mutex) { v.applyOwner(m, &ownerRecord{header: current, Pair: "p"}, 15, 1) },
		"a place":       func(v *view, m *mutex) { v.applyEntry(m, "p", &entryRecord{header: current}, 15) },
		"a declaration": func(v *view, m *mutex) { v.applyDeclared(m, &declaredRecord{header: current}, 15) },
		"a history":     func(v *view, m *mutex) { v.applyHistory(m, &historyRecord{header: current}, 15) },
		"a replica":     func(v *view, _ *mutex) { v.applyReplica("r", true, 15) },
	} {
		for _, kept := range []bool{false, true} {
			v := testView()
			v.advance(20)
			m := v.at("deploy")
			if kept {
				m.readers++
			}
			late(v, m)
			v.sweep(m)
			if m.owner != nil || len(m.line) > 0 || m.declared != nil || m.historyRev != 0 || v.alive("r") || v.active != 0 {
				t.Errorf("%s is revived, kept: %v", name, kept)
			}
		}
	}
}

// A mutex that is forgotten still has its last revision, or a later one that
// every reader has seen pass.
func TestRevisionsOfTheForgotten(t *testing.T) {
	v := testView()
	v.applyOwner(v.at("deploy"), &ownerRecord{header: current, Pair: "p"}, 10, 1)
	v.applyOwner(v.at("deploy"), nil, 20, 0)
	v.advance(20)
	for i := range 4 {
		if v.mutexes["deploy"] != nil {
			t.Fatal("it is not forgotten")
		}
		if got := v.lastOf("deploy"); got != 20 {
			t.Errorf("after %d rotations: got revision %d, want 20", i, got)
		}
		v.rotate()
	}
	if len(v.gone[0])+len(v.gone[1]) != 0 {
		t.Errorf("got %v still remembered", v.gone)
	}
}
