package etcdstore

import (
	"log/slog"
	"reflect"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// What stands in etcd may have been written by anybody. Whatever it is, it does
// not stop a replica, and harms its own mutex alone.

const (
	fuzzPrefix = "/t/"
	harmed     = service.Name("deploy") // whose values are fuzzed
	bystander  = service.Name("other")
	fuzzHead   = service.Pair("0a1b2c3d") // has a place in both
)

// FuzzKeys: parse is the inverse of what draws keys, and fits no other key.
func FuzzKeys(f *testing.F) {
	k := keys{prefix: fuzzPrefix}
	for _, key := range []string{
		k.owner(harmed), k.entry(harmed, fuzzHead), k.settled(harmed, fuzzHead), k.declared(harmed),
		k.history(harmed), k.replica("a"), k.owner("") + "/line/", k.mutexes(), "/t/history", "/t", "",
	} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		kind, name, tail := k.parse(key)
		want := map[keyKind]string{
			keyOwner: k.owner(name), keyEntry: k.entry(name, service.Pair(tail)), keySettled: k.settled(name, service.Pair(tail)),
			keyDeclared: k.declared(name), keyHistory: k.history(name), keyReplica: k.replica(tail), keyOther: key,
		}[kind]
		if key != want {
			t.Errorf("got kind %d of %q, whose key is %q", kind, key, want)
		}
	})
}

// FuzzStored: two writes of whatever, through each way into the view.
func FuzzStored(f *testing.F) {
	k := keys{prefix: fuzzPrefix}
	for _, key := range []string{
		k.owner(harmed), k.entry(harmed, fuzzHead), k.settled(harmed, fuzzHead), k.declared(harmed), k.history(harmed),
		k.replica("dead"), k.entry(harmed, ""), k.owner(""), k.mutexes() + "x/y/z", "",
	} {
		for _, value := range fuzzValues() {
			f.Add(key, []byte(value), int64(20), k.entry(harmed, "new"), []byte(encode(fuzzPlace(3))), int64(21), false)
		}
	}
	f.Add(k.owner(harmed), []byte(nil), int64(20), k.entry(harmed, fuzzHead), []byte(nil), int64(20), true)
	f.Fuzz(func(t *testing.T, key1 string, value1 []byte, rev1 int64, key2 string, value2 []byte, rev2 int64, deleted bool) {
		kvs := []*mvccpb.KeyValue{
			{Key: []byte(key1), Value: value1, ModRevision: rev1, Lease: rev2},
			{Key: []byte(key2), Value: value2, ModRevision: rev2},
		}
		for way, takeIn := range waysIn {
			s := fuzzStore(t)
			before := untouched(s, kvs)
			takeIn(s, kvs, deleted)
			if after := untouched(s, kvs); !reflect.DeepEqual(after, before) {
				t.Errorf("%s: got other mutexes %+v, want %+v as before", way, after, before)
			}
			decide(t, s)
		}
	})
}

// waysIn are the ways by which the view learns: its watch, a read of one mutex,
// and a list of everything. In the last two what is not there is deleted.
var waysIn = map[string]func(s *Store, kvs []*mvccpb.KeyValue, deleted bool){
	"watch": func(s *Store, kvs []*mvccpb.KeyValue, deleted bool) {
		events := []*clientv3.Event{{Kv: kvs[0]}, {Kv: kvs[1]}}
		if deleted {
			events[1].Type = mvccpb.DELETE
		}
		s.takeIn(clientv3.WatchResponse{Events: events})
	},
	"read": func(s *Store, kvs []*mvccpb.KeyValue, deleted bool) {
		g := [3][]*mvccpb.KeyValue{}
		for _, kv := range kvs[:left(deleted)] {
			if kind, name, _ := s.keys.parse(string(kv.Key)); name == harmed && kind != keySettled {
				i := rangeOf(kind)
				g[i] = append(g[i], kv)
			}
		}
		_, _ = s.newStanding(harmed, "pair", g[0], kvs)
		s.view.mu.Lock()
		defer s.view.mu.Unlock()
		_ = s.view.applyMutex(s.keys, harmed, g[0], g[1], g[2], kvs[0].ModRevision)
	},
	"list": func(s *Store, kvs []*mvccpb.KeyValue, deleted bool) {
		groups := map[service.Name]*[3][]*mvccpb.KeyValue{}
		for _, kv := range append(fuzzKeys(s.keys, bystander), kvs[:left(deleted)]...) {
			kind, name, _ := s.keys.parse(string(kv.Key))
			if groups[name] == nil {
				groups[name] = &[3][]*mvccpb.KeyValue{}
			}
			g := &groups[name][rangeOf(kind)]
			*g = append(*g, kv)
		}
		s.view.applyList(s.keys, groups, kvs[1:], kvs[0].ModRevision)
	},
}

func left(deleted bool) int {
	if deleted {
		return 1
	}
	return 2
}

// rangeOf returns which of the ranges that are read together a key is in.
func rangeOf(kind keyKind) int {
	switch kind {
	case keyDeclared:
		return 1
	case keyHistory:
		return 2
	}
	return 0
}

// fuzzStore is a store that has no etcd, with two mutexes in its view.
func fuzzStore(t *testing.T) *Store {
	s := New(Config{Prefix: fuzzPrefix, Policy: service.Policy{DefaultTTL: time.Second}, Log: slog.New(slog.DiscardHandler)})
	s.view.tend = func(*mutex) {} // would act on what it finds
	s.view.roused = func() {}
	s.clock.Tick()
	s.clock.Committed()
	s.view.mu.Lock()
	defer s.view.mu.Unlock()
	s.view.hearLocked()
	s.view.applyReplica(s.id, true, 1)
	s.view.applyReplica("dead", true, 1)
	for _, name := range []service.Name{harmed, bystander} {
		for _, kv := range fuzzKeys(s.keys, name) {
			kind, _, pair := s.keys.parse(string(kv.Key))
			if err := s.view.apply(s.view.at(name), kind, service.Pair(pair), kv); err != nil {
				t.Fatal(err)
			}
		}
	}
	return s
}

// fuzzKeys is a mutex that is owned and waited for, as etcd has it.
func fuzzKeys(k keys, name service.Name) []*mvccpb.KeyValue {
	kv := func(key string, record any, rev int64) *mvccpb.KeyValue {
		return &mvccpb.KeyValue{Key: []byte(key), Value: []byte(encode(record)), ModRevision: rev, Lease: 1}
	}
	return []*mvccpb.KeyValue{
		kv(k.declared(name), newDeclared(service.Settings{TTL: time.Second, MaxWaiters: 5}), 10),
		kv(k.history(name), historyRecord{header: current, Past: make([]settledRecord, historyLength)}, 11),
		kv(k.owner(name), fuzzOwner(), 12),
		kv(k.entry(name, fuzzHead), fuzzPlace(0), 13),
		kv(k.entry(name, "second"), fuzzPlace(3), 14),
	}
}

func fuzzOwner() ownerRecord {
	return ownerRecord{header: current, Contender: "alice", Pair: "a", TTLMs: 1000, TransitionMs: 500, MaxHoldMs: 3000, Replica: "dead"}
}

func fuzzPlace(joined int64) entryRecord {
	return entryRecord{header: current, Contender: "bob", Joined: joined, Present: true, Poll: "p", Replica: "dead"}
}

func fuzzValues() []string {
	return []string{
		encode(fuzzOwner()), encode(fuzzPlace(0)), encode(newDeclared(service.Settings{TTL: time.Second, MaxHold: time.Second})),
		encode(historyRecord{header: current, Past: []settledRecord{{Ended: service.EndedReleased}}}),
		encode(settledRecord{header: current, Ended: service.EndedExpired, Fence: 5}),
		`{"v":1,"ttl_ms":-9223372036854775808,"transition_ms":9223372036854775807,"max_hold_ms":-1,"held_ms":-1,"joined":-1}`,
		`{"v":1,"asked_ttl_ms":9223372036854775807,"present":true,"replica":"dead","past":[{}]}`,
		`{"v":2}`, `null`, `[]`, `{`, ``, `{"v":1,"acquired_at":"never"}`,
	}
}

// known is all that the view holds of a mutex's keys.
type known struct {
	owner       owner
	line        []entry
	declared    declaredRecord
	history     historyRecord
	rev         int64
	entries     int
	ownerRev    int64
	declaredRev int64
}

// untouched returns what is known of the mutexes that kvs are not about.
func untouched(s *Store, kvs []*mvccpb.KeyValue) map[service.Name]known {
	about := map[service.Name]bool{harmed: true}
	for _, kv := range kvs {
		_, name, _ := s.keys.parse(string(kv.Key))
		about[name] = true
	}
	all := map[service.Name]known{}
	for name, m := range s.view.mutexes {
		if about[name] {
			continue
		}
		k := known{
			owner: *m.owner, declared: *m.declared, history: m.history, rev: m.maxRev,
			entries: len(m.entries), ownerRev: m.ownerRev, declaredRev: m.declaredRev,
		}
		for _, e := range m.line {
			k.line = append(k.line, *e)
		}
		all[name] = k
	}
	return all
}

// decide makes of the view whatever decisions are made of it.
func decide(t *testing.T, s *Store) {
	t.Helper()
	s.view.popDue()
	for name, m := range s.view.mutexes {
		if len(m.line) != len(m.entries) {
			t.Errorf("%q: %d in line, and %d places", name, len(m.line), len(m.entries))
		}
		for _, e := range m.line {
			s.view.placeOf(name, e)
		}
		for _, pair := range []service.Pair{"", "a", fuzzHead} {
			v := s.view.look(name, pair, true)
			s.planGuard(name, pair, &v, true)
			if settings := v.settings(); v.head != nil && settings != nil {
				grantTo(v.head, settings.Renew(true, v.head.rec.domain()))
			}
			v.history.with(settledRecord{})
		}
		s.view.mu.Lock()
		s.task(m)
		s.mutexOf(m)
		s.view.mu.Unlock()
	}
}
