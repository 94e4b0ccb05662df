package history_test

import (
	"testing"
	"time"
)

// checkRepeats: a release that is repeated with its operation id says that it
// freed the mutex, as long as nothing else can have; and what became of an
// ownership is told as it was.
func checkRepeats(t testing.TB, history []*op) {
	t.Helper()
	d := deedsOf(history)
	repeats := 0
	for _, o := range history {
		switch {
		case o.kind == release && o.opID != "" && d.ids[o.party][o.opID] && len(d.ids[o.party]) == 1:
			if d.released[o.party] < o.sent {
				repeats++
			}
			// Within W of the last success it can have ended by this alone.
			struck := d.struck[d.fence[o.party]]
			if o.got < d.owned[o.party] && !struck && o.answer != released && !o.failed() {
				t.Errorf("%v: want released, nothing else can have ended it before %.3f", o, ms(d.owned[o.party]))
			}
			if o.answer == freedBefore {
				t.Errorf("%v: want released, all releases have this id", o)
			}
		case o.ended == "released" && d.released[o.party] == 0:
			t.Errorf("%v: it never released", o)
		case o.ended == "broken" && d.fence[o.party] != 0 && !d.struck[d.fence[o.party]]:
			t.Errorf("%v: nobody broke it", o)
		}
	}
	t.Logf("%d releases that repeated another", repeats)
}

// deeds are what was done to ownerships.
type deeds struct {
	owned    map[party]time.Duration // until when a party was told to own, at least
	fence    map[party]int64         // that it was told of
	released map[party]time.Duration // when it first sent a release
	ids      map[party]map[string]bool
	struck   map[int64]bool // fences that somebody tried to break
}

func deedsOf(history []*op) deeds {
	d := deeds{
		owned: map[party]time.Duration{}, fence: map[party]int64{}, released: map[party]time.Duration{},
		ids: map[party]map[string]bool{}, struck: map[int64]bool{},
	}
	for _, o := range history {
		switch {
		case o.answer == owned:
			d.owned[o.party] = max(d.owned[o.party], o.sent+o.window)
			d.fence[o.party] = o.seen
		case o.kind == release:
			earliest(d.released, o.party, o.sent)
			if d.ids[o.party] == nil {
				d.ids[o.party] = map[string]bool{}
			}
			d.ids[o.party][o.opID] = true
		case o.kind == breaking:
			d.struck[o.fence] = true
		}
	}
	return d
}
