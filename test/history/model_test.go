package history_test

import (
	"time"

	"github.com/anishathalye/porcupine"
)

// state is one mutex, as the operations that were put in order so far leave
// it. It is comparable.
type state struct {
	fence int64 // of the owner, or nobody
	party party // the owner; 0 while it is not known
	last  int64 // the newest fence that began

	// until is before when the ownership cannot end by itself: the last
	// success that the owner was told of was sent W before.
	until time.Duration
	// now is the earliest moment at which the last operation can have
	// happened. Those that follow did not happen before.
	now time.Duration
	was time.Duration // now, before the operation in hand; 0 between operations
}

// model returns a mutex of which k is known.
//
// An ownership whose W has passed, or that was never told of, ends by itself.
// The model lets it end when an answer shows that it has, and not before: that
// allows whatever ending it earlier would allow. So no operations stand for
// these endings, whose open intervals would make the search endless, and yet
// an ownership that ended too early fits nowhere.
func model(k *known) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return state{} },
		Step: func(s, input, _ any) (bool, any) {
			st, o := s.(state), input.(*op)
			ok := k.step(&st, o)
			return ok, st
		},
		DescribeOperation: func(input, _ any) string { return input.(*op).String() },
	}
}

// step puts o after what led to s; false means that it does not fit there.
func (k *known) step(s *state, o *op) bool {
	s.was = s.now
	defer func() { s.was = 0 }()
	if !s.at(o.sent, o) {
		return false
	}
	switch o.answer {
	case owned:
		return k.owns(s, o)
	case locked, checked:
		return k.sees(s, o)
	case notOwner:
		return k.sees(s, o) && (s.party != o.party || s.fence == nobody)
	case spent, freedBefore, leftLine:
		return s.party != o.party || k.ends(s, o)
	case released:
		return k.frees(s, o)
	case broken:
		return k.strikes(s, o)
	case notCurrent:
		return o.seen != o.fence && k.sees(s, o)
	}
	return true
}

// at says that o happens at t or later.
func (s *state) at(t time.Duration, o *op) bool {
	s.now = max(s.now, t)
	return s.now <= o.got
}

// ends makes sure that nobody owns: an owner that there still is has ended by
// itself by now, if it can have.
func (k *known) ends(s *state, o *op) bool {
	if s.fence == nobody {
		return true
	}
	until := k.ended(s)
	s.fence, s.party, s.until = nobody, 0, 0
	return s.at(until, o)
}

// ended returns from when on an owner that there still is can have ended.
func (k *known) ended(s *state) time.Duration { return min(s.until, k.letGo(s.party, s.fence)) }

// begins makes fence the owner. Every fence that anybody ever saw begins once,
// and in ascending order.
func (k *known) begins(s *state, o *op, fence int64) bool {
	if !k.ends(s, o) || k.before[fence] != s.last {
		return false
	}
	s.fence, s.party, s.last = fence, k.owner[fence], fence
	return true
}

// owns: acquire and guard leave their party the owner. A grant that nobody was
// told of may be found by either.
func (k *known) owns(s *state, o *op) bool {
	if s.fence != o.seen && o.kind == guard && !k.haunts(s, o, o.seen) {
		return false
	}
	if s.fence != o.seen {
		if !k.begins(s, o, o.seen) {
			return false
		}
		s.until = s.now + o.window // not from when a long wait was sent
	}
	s.until = max(s.until, o.sent+o.window)
	return s.party == o.party
}

// sees: the owner is whom the answer names.
func (k *known) sees(s *state, o *op) bool {
	switch o.seen {
	case s.fence:
		return true
	case nobody:
		return k.ends(s, o)
	}
	return k.haunts(s, o, o.seen)
}

// haunts begins an ownership that its party has not been told of yet: of an
// acquire that vanished. It can end at any time.
func (k *known) haunts(s *state, o *op, fence int64) bool {
	g, ok := k.ghosts[fence]
	if !ok || max(g.from, s.was, k.ended(s)) > g.to {
		return false // the earliest that it can have begun is too late
	}
	return k.begins(s, o, fence) && s.at(g.from, o)
}

// frees: a release took the mutex from its party.
func (k *known) frees(s *state, o *op) bool {
	if s.fence != nobody && (s.party == o.party || s.party == 0) {
		s.fence, s.party, s.until = nobody, 0, 0
		return true
	}
	if k.repeats(o) {
		return true // it was this same call, sent before, that freed it
	}
	// Or from what it had been granted, and nobody was told of.
	untold, ok := k.vanished[o.party]
	return ok && k.ends(s, o) && s.at(untold.from, o)
}

// strikes: an operator ended the ownership, with this call or with one before.
func (k *known) strikes(s *state, o *op) bool {
	if s.last < o.fence && !k.haunts(s, o, o.fence) {
		return false
	}
	if s.fence == o.fence {
		s.fence, s.party, s.until = nobody, 0, 0
		return true
	}
	return k.brokenBefore(o)
}
