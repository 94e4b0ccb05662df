package history_test

import (
	"fmt"
	"time"
)

// wrongEndings returns what is wrong with what was told of how ownerships
// ended. A release that is repeated with its operation id says that it freed
// the mutex, as long as nothing else can have.
func wrongEndings(history []*op) (wrong []error) {
	d := deedsOf(history)
	for _, o := range history {
		struck := d.struck[d.fence[o.party]]
		alike := o.kind == release && o.opID != "" && len(d.ids[o.party]) == 1 // all releases are
		switch {
		case alike && o.got < d.owned[o.party] && !struck && o.answer != released && !o.failed():
			// Within W of the last success nothing else can have ended it.
			wrong = append(wrong, fmt.Errorf("%v: want released, it owned until %.3f", o, ms(d.owned[o.party])))
		case alike && o.answer == freedBefore:
			wrong = append(wrong, fmt.Errorf("%v: want released, all its releases have this id", o))
		case o.ended == "released" && len(d.ids[o.party]) == 0:
			wrong = append(wrong, fmt.Errorf("%v: it never released", o))
		case o.ended == "broken" && d.fence[o.party] != 0 && !struck:
			wrong = append(wrong, fmt.Errorf("%v: nobody broke it", o))
		}
	}
	return wrong
}

// deeds are what was done to ownerships.
type deeds struct {
	owned  map[party]time.Duration   // until when a party was told to own, at least
	fence  map[party]int64           // that it was told of
	ids    map[party]map[string]bool // of its releases
	struck map[int64]bool            // fences that somebody tried to break
}

func deedsOf(history []*op) deeds {
	d := deeds{
		owned: map[party]time.Duration{}, fence: map[party]int64{},
		ids: map[party]map[string]bool{}, struck: map[int64]bool{},
	}
	for _, o := range history {
		switch {
		case o.answer == owned:
			d.owned[o.party] = max(d.owned[o.party], o.sent+o.window)
			d.fence[o.party] = o.seen
		case o.kind == release:
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
