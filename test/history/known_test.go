package history_test

import (
	"slices"
	"time"
)

// known is what the whole history of one mutex tells of its fences and
// parties, whatever the order of events was.
type known struct {
	before   map[int64]int64         // the next smaller fence that anybody saw; 0 for the first
	owner    map[int64]party         // whose fence it is; absent where nobody was told
	ghosts   map[int64]time.Duration // from when on a fence can belong to an acquire that was not told of it
	vanished map[party]time.Duration // when a party first sent an acquire that may have owned without being told

	loose    map[party]time.Duration // when a party first sent a release with an unknown outcome
	shaken   map[int64]time.Duration // when a break with an unknown outcome was first sent
	breaks   map[int64][]*op         // all that may have broken a fence
	releases map[string][]*op        // all that may have freed it, by operation id
}

// learn reads the history of one mutex.
func learn(history []*op) *known {
	k := &known{
		before: map[int64]int64{}, owner: map[int64]party{}, ghosts: map[int64]time.Duration{},
		vanished: map[party]time.Duration{}, loose: map[party]time.Duration{}, shaken: map[int64]time.Duration{},
		breaks: map[int64][]*op{}, releases: map[string][]*op{},
	}
	seen := map[int64]bool{}
	for _, o := range history {
		for _, fence := range o.fences() {
			seen[fence] = true
		}
		if o.seen > 0 && o.whose != 0 {
			k.owner[o.seen] = o.whose
		}
		k.note(o)
	}
	k.order(seen)
	k.haunt(seen)
	return k
}

// fences returns those that o proves to have been.
func (o *op) fences() (list []int64) {
	if o.seen > 0 {
		list = append(list, o.seen)
	}
	if o.answer == broken {
		list = append(list, o.fence)
	}
	return list
}

func (k *known) note(o *op) {
	switch {
	case o.kind == acquire && (o.answer == unknown || o.answer == spent):
		// A wait can be granted, and that be over, before it is answered.
		earliest(k.vanished, o.party, o.sent)
	case o.answer == unknown && o.kind == release:
		earliest(k.loose, o.party, o.sent)
	case o.answer == unknown && o.kind == breaking:
		earliest(k.shaken, o.fence, o.sent)
	}
	switch {
	case o.kind == breaking && (o.answer == broken || o.answer == unknown):
		k.breaks[o.fence] = append(k.breaks[o.fence], o)
	case o.opID != "" && (o.answer == released || o.answer == unknown):
		k.releases[o.opID] = append(k.releases[o.opID], o)
	}
}

func (k *known) order(seen map[int64]bool) {
	var fences []int64
	for fence := range seen {
		fences = append(fences, fence)
	}
	slices.Sort(fences)
	last := int64(0)
	for _, fence := range fences {
		k.before[fence] = last
		last = fence
	}
}

func (k *known) haunt(seen map[int64]bool) {
	first := never
	for _, at := range k.vanished {
		first = min(first, at)
	}
	for fence := range seen {
		p, ok := k.owner[fence]
		if at, haunts := k.vanished[p]; ok && haunts {
			k.ghosts[fence] = at
		} else if !ok && first != never {
			k.ghosts[fence] = first
		}
	}
}

// letGo returns from when on an ownership can have ended because of a call
// whose outcome nobody knows.
func (k *known) letGo(p party, fence int64) time.Duration {
	at := never
	if t, ok := k.loose[p]; ok {
		at = min(at, t)
	}
	if t, ok := k.shaken[fence]; ok {
		at = min(at, t)
	}
	return at
}

// repeats reports whether o is a release that was sent before.
func (k *known) repeats(o *op) bool { return o.opID != "" && another(k.releases[o.opID], o) }

// brokenBefore reports whether another break can have ended the same ownership.
func (k *known) brokenBefore(o *op) bool { return another(k.breaks[o.fence], o) }

func another(ops []*op, o *op) bool {
	return slices.ContainsFunc(ops, func(other *op) bool { return other != o && other.sent <= o.got })
}

func earliest[K comparable](m map[K]time.Duration, key K, at time.Duration) {
	if old, ok := m[key]; !ok || at < old {
		m[key] = at
	}
}
