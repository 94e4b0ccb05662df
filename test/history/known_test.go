package history_test

import (
	"slices"
	"time"
)

// known is what the whole history of one mutex tells of its fences and
// parties, whatever the order of events was.
type known struct {
	before   map[int64]int64 // the next smaller fence that anybody saw; 0 for the first
	owner    map[int64]party // whose fence it is; absent where nobody was told
	told     map[int64]bool  // that the owner was told of
	ghosts   map[int64]while // when a fence can have begun of an acquire that was not told of it
	vanished map[party]while // when a party may have come to own without being told
	waited   map[party]while // when it may have, with another fence than it was told of in the end

	loose    map[party]time.Duration // when a party first sent a release with an unknown outcome
	shaken   map[int64]time.Duration // when a break with an unknown outcome was first sent
	breaks   map[int64][]*op         // all that may have broken a fence
	releases map[string][]*op        // all that may have freed it, by operation id
}

// while is a time that something can have begun in.
type while struct{ from, to time.Duration }

func (w while) and(other while) while { return while{min(w.from, other.from), max(w.to, other.to)} }

// learn reads the history of one mutex.
func learn(history []*op) *known {
	k := &known{
		before: map[int64]int64{}, owner: map[int64]party{}, told: map[int64]bool{}, ghosts: map[int64]while{},
		vanished: map[party]while{}, waited: map[party]while{}, loose: map[party]time.Duration{}, shaken: map[int64]time.Duration{},
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
	case o.answer == owned:
		k.told[o.seen] = true
		if o.waits {
			widen(k.waited, o.party, while{o.sent, o.got})
		}
	case o.kind == acquire:
		if to, ok := o.untold(); ok {
			widen(k.vanished, o.party, while{o.sent, to})
		}
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

// untold returns until when an acquire that did not say so can have come to
// own. A wait can be granted, and that be over, before it is answered; under
// faults also where the answer says nothing of it: its replica was thought
// dead, and the turn passed on.
func (o *op) untold() (until time.Duration, ok bool) {
	switch o.answer {
	case unknown, undone:
		return never, true
	case spent:
		return o.got, true
	case locked, passed:
		return o.got, o.waits
	}
	return 0, false
}

// haunt finds out which fences can be of acquires that were not told of them.
func (k *known) haunt(seen map[int64]bool) {
	anybody := map[party]while{}
	for _, byParty := range []map[party]while{k.vanished, k.waited} {
		for _, w := range byParty {
			widen(anybody, 0, w)
		}
	}
	for fence := range seen {
		p, ok := k.owner[fence]
		if !ok {
			if w, haunts := anybody[0]; haunts {
				k.ghosts[fence] = w
			}
			continue
		}
		if w, haunts := k.vanished[p]; haunts {
			widen(k.ghosts, fence, w)
		}
		if w, haunts := k.waited[p]; haunts && !k.told[fence] {
			widen(k.ghosts, fence, w)
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

func widen[K comparable](m map[K]while, key K, w while) {
	if old, ok := m[key]; ok {
		w = w.and(old)
	}
	m[key] = w
}
