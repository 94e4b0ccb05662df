package history_test

import "time"

// trouble is a fault that was done, and what it may have held up.
type trouble struct {
	what     string
	from, to time.Duration
	of       scope
	deadly   bool // a replica was killed: nothing is held up, but it must be found dead
}

// scope is a set of replicas; with all of them, everything else too.
type scope uint

const everything = ^scope(0)

func replicas(list ...int) (s scope) {
	for _, i := range list {
		s |= 1 << i
	}
	return s
}

// recovery is how long after a fault things can take to be as before: the
// connections are made anew, the watch is, a leader is elected.
const recovery = 5 * time.Second

// undisturbed returns how much of a time nothing of these replicas was held up
// in.
func undisturbed(from, to time.Duration, of scope, troubles []trouble) time.Duration {
	var sum time.Duration
	at := from
	for _, t := range troubles { // in the order in which they began
		if t.of&of == 0 || t.deadly {
			continue
		}
		if t.from > at {
			sum += max(0, min(t.from, to)-at)
		}
		at = max(at, t.to+recovery)
	}
	return sum + max(0, to-at)
}

// killed reports whether one of these replicas was at some time.
func killed(from, to time.Duration, of scope, troubles []trouble) bool {
	for _, t := range troubles {
		if t.deadly && t.of&of != 0 && t.from <= to && t.to+recovery >= from {
			return true
		}
	}
	return false
}
