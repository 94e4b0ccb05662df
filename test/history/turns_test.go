package history_test

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// How long after a party's last call, with nothing held up, something of it
// can still be: whose connection shows that it has gone is out within a
// second; a replica that died is found dead when its lease of 3 s is over. The
// rest is for a busy machine.
const (
	goneWithin = 3 * time.Second
	deadWithin = 5 * time.Second

	lastsWithin = deadWithin + time.Second // beyond W
)

// stay is what is known of one ownership: between which times it began, and
// when it was seen last.
type stay struct {
	fence        int64
	party        party
	told         bool
	after, until time.Duration
	shows        *op // that it had not begun at after
	shown        *op // it, last
}

// calls are those of a party, as far as they matter to how long it can own.
type calls struct {
	last  *op // that ended last
	first time.Duration
	asked time.Duration // the longest W
	of    scope         // the replicas that were called
}

// strayTurns returns what is wrong with who owned a mutex when: nobody comes to
// own long after he was last heard of, however many were in line before him,
// for a turn is given to those present alone; and no ownership lasts long
// beyond its W.
func strayTurns(history []*op, troubles []trouble) (wrong []error) {
	byParty := callsOf(history)
	for _, s := range staysOf(history) {
		p := byParty[s.party]
		if p == nil {
			continue // nobody was told whose it is
		}
		gone, allowed := p.last.left, goneWithin
		if killed(p.first, s.until, p.of, troubles) {
			allowed = deadWithin
		}
		if late := undisturbed(gone, s.after, p.of, troubles); !s.told && late > allowed {
			wrong = append(wrong, fmt.Errorf("fence %d began for a party that had gone %v before, besides faults:\n\t%v\n\twas its last call, and then came\n\t%v\n\t%v",
				s.fence, late, p.last, s.shows, s.shown))
		}
		if late := undisturbed(gone, s.until, p.of, troubles); late > p.asked+lastsWithin {
			wrong = append(wrong, fmt.Errorf("fence %d lasted %v beyond W, besides faults:\n\t%v\n\twas its party's last call, and then came\n\t%v",
				s.fence, late-p.asked, p.last, s.shown))
		}
	}
	return wrong
}

func callsOf(history []*op) map[party]*calls {
	all := map[party]*calls{}
	for _, o := range history {
		if o.party == 0 {
			continue
		}
		c := all[o.party]
		if c == nil {
			c = &calls{last: o, first: o.sent}
			all[o.party] = c
		}
		if o.left > c.last.left {
			c.last = o
		}
		c.first = min(c.first, o.sent)
		c.asked = max(c.asked, o.asked)
		c.of |= replicas(o.replica)
	}
	return all
}

// staysOf returns the ownerships of one mutex in order. One began after every
// time that an older one was seen.
func staysOf(history []*op) []*stay {
	byFence := map[int64]*stay{}
	latest := map[int64]*op{} // the last that was sent and saw a fence
	for _, o := range history {
		if o.seen <= 0 {
			continue
		}
		s := byFence[o.seen]
		if s == nil {
			s = &stay{fence: o.seen}
			byFence[o.seen] = s
		}
		s.told = s.told || o.answer == owned
		s.party = max(s.party, o.whose)
		// A long wait may have seen it long before it was answered.
		if s.shown == nil || o.sent > s.shown.sent {
			s.shown, s.until = o, o.sent
			latest[o.seen] = o
		}
	}
	var stays []*stay
	for _, s := range byFence {
		stays = append(stays, s)
	}
	slices.SortFunc(stays, func(a, b *stay) int { return cmp.Compare(a.fence, b.fence) })
	var newest *op
	for _, s := range stays {
		if newest != nil {
			s.after, s.shows = newest.sent, newest
		}
		if o := latest[s.fence]; newest == nil || o.sent > newest.sent {
			newest = o
		}
	}
	return stays
}
