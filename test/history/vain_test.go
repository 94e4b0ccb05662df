package history_test

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// inLineWithin is how long a wait may take to be in line, and an idle mutex to
// be given to who is, where nothing is held up.
const inLineWithin = time.Second

// vainWaits returns the waits in which the mutex stayed idle.
func vainWaits(history []*op, troubles []trouble) (wrong []error) {
	var sights []*op // of the owner or of nobody, at about a time
	for _, o := range history {
		if o.seen != nothing && !o.waits {
			sights = append(sights, o)
		}
	}
	slices.SortFunc(sights, func(a, b *op) int { return cmp.Compare(a.sent, b.sent) })
	for _, o := range history {
		inLine := o.waits && (o.answer == locked || o.answer == owned) // to its end
		if !inLine || undisturbed(o.sent, o.got, everything, troubles) < o.got-o.sent || killed(o.sent, o.got, everything, troubles) {
			continue
		}
		if first, last := idleDuring(o, sights); last != nil {
			wrong = append(wrong, fmt.Errorf("idle, while somebody waited:\n\t%v\n\tsaw none of it, but\n\t%v\n\t%v", o, first, last))
		}
	}
	return wrong
}

// idleDuring returns two sights that a wait was in vain between, if there are.
func idleDuring(wait *op, sights []*op) (first, last *op) {
	for _, o := range sights {
		switch {
		case o.sent < wait.sent+inLineWithin || o.got > wait.got:
		case o.seen > 0:
			first = nil
		case first == nil:
			first = o
		case o.sent > first.got+inLineWithin:
			return first, o
		}
	}
	return nil, nil
}
