package history_test

import (
	"cmp"
	"slices"
	"testing"
	"time"
)

// span is when a party certainly owned: from the answer until W after its
// request was sent, unless something was sent before that ends it.
type span struct {
	mutex    int
	fence    int64
	party    party
	from, to time.Duration
}

// certain returns the spans of a history.
func certain(history []*op) []span {
	type key struct {
		mutex int
		fence int64
	}
	given := map[party]time.Duration{} // away by its own release
	struck := map[key]time.Duration{}  // by a break
	for _, o := range history {
		switch o.kind {
		case release:
			earliest(given, o.party, o.sent)
		case breaking:
			earliest(struck, key{o.mutex, o.fence}, o.sent)
		}
	}
	var spans []span
	for _, o := range history {
		if o.answer != owned {
			continue
		}
		s := span{mutex: o.mutex, fence: o.seen, party: o.party, from: o.got, to: o.sent + o.window}
		if at, ok := given[o.party]; ok {
			s.to = min(s.to, at)
		}
		if at, ok := struck[key{o.mutex, o.seen}]; ok {
			s.to = min(s.to, at)
		}
		if s.from < s.to {
			spans = append(spans, s)
		}
	}
	return spans
}

// checkExclusion: no two parties certainly owned a mutex at the same time.
func checkExclusion(t testing.TB, spans []span) {
	t.Helper()
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var longest [mutexes]span // of those begun, the one that ends last
	for _, s := range spans {
		l := &longest[s.mutex]
		if s.from < l.to && s.party != l.party {
			t.Errorf("m%d: %s owned in [%.3f, %.3f) and %s in [%.3f, %.3f)", s.mutex,
				l.party.contender(), ms(l.from), ms(l.to), s.party.contender(), ms(s.from), ms(s.to))
		}
		if s.to > l.to {
			*l = s
		}
	}
}

// checkFences: a grant that was asked for after another was answered has the
// larger fence, or is of the same ownership; and a token has one ownership.
func checkFences(t testing.TB, history []*op) {
	t.Helper()
	first := map[party]*op{}
	newest := map[party]*op{}
	var grants []*op
	for _, o := range history {
		if o.answer != owned {
			continue
		}
		switch n := newest[o.party]; {
		case n == nil || n.seen != o.seen && isTakenForUntold(first[o.party], n, o):
			first[o.party] = o
		case n.seen != o.seen:
			t.Errorf("%s owned twice:\n\t%v\n\t%v", o.party.contender(), n, o)
		}
		newest[o.party] = o
		if o.kind == acquire {
			grants = append(grants, o)
		}
	}
	bySent := slices.SortedFunc(slices.Values(grants), func(a, b *op) int { return cmp.Compare(a.sent, b.sent) })
	byGot := slices.SortedFunc(slices.Values(grants), func(a, b *op) int { return cmp.Compare(a.got, b.got) })
	var highest [mutexes]*op // of those answered
	for _, o := range bySent {
		for len(byGot) > 0 && byGot[0].got < o.sent {
			if h := highest[byGot[0].mutex]; h == nil || h.seen < byGot[0].seen {
				highest[byGot[0].mutex] = byGot[0]
			}
			byGot = byGot[1:]
		}
		if h := highest[o.mutex]; h != nil && o.seen < h.seen {
			t.Errorf("a smaller fence later: %v after %v", o, h)
		}
	}
}

// isTakenForUntold reports whether a token can have a second ownership, told of
// by o: the replica that answered its wait died, and nothing came of it until W
// was over, so that the others cannot know that its party was told.
func isTakenForUntold(first, newest, o *op) bool {
	return first == newest && first.waits && o.got > first.sent+first.window
}
