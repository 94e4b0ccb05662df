package history_test

import (
	"testing"
	"time"
)

const second = 1000 // of the histories made by hand, which are in milliseconds

// calling is a call that the client ended at a time, answered or not.
func calling(sent, left int, o op) *op {
	got := at(sent, left, o)
	got.left, got.asked = time.Duration(left)*time.Millisecond, 100*time.Millisecond
	return got
}

func TestStrayTurnsAreSeen(t *testing.T) {
	const alice, bob = party(1), party(2)
	vanishes := calling(0, 2*second, does(acquire, alice, unknown))
	holds := func(sec int) *op { return calling(sec*second, sec*second+5, guards(bob, 10)) }
	holding := func(sec int) *op {
		return calling(sec*second, sec*second+5, op{kind: acquire, party: bob, answer: locked, seen: 20, whose: alice})
	}
	during := func(from, to int, deadly bool) []trouble {
		return []trouble{{from: time.Duration(from) * time.Second, to: time.Duration(to) * time.Second, of: everything, deadly: deadly}}
	}
	for name, c := range map[string]struct {
		history  []*op
		troubles []trouble
		want     int
	}{
		"a turn just after":                     {[]*op{vanishes, holds(4), holding(5)}, nil, 0},
		"a turn long after":                     {[]*op{vanishes, holds(6), holding(7)}, nil, 1},
		"a turn, and never over":                {[]*op{vanishes, holds(3), holding(9)}, nil, 1},
		"a turn after a fault":                  {[]*op{vanishes, holds(9), holding(10)}, during(1, 4, false), 0},
		"a turn long after a fault":             {[]*op{vanishes, holds(13), holding(14)}, during(1, 4, false), 1},
		"a turn before its replica is dead":     {[]*op{vanishes, holds(6), holding(7)}, during(1, 4, true), 0},
		"a turn long after its replica is dead": {[]*op{vanishes, holds(9), holding(10)}, during(1, 4, true), 2},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strayTurns(c.history, c.troubles); len(got) != c.want {
				t.Errorf("got %v, want %d wrong", got, c.want)
			}
		})
	}
}

func TestVainWaitsAreSeen(t *testing.T) {
	const alice, bob = party(1), party(2)
	wait := calling(0, 6*second, waits(op{kind: acquire, party: alice, answer: locked, seen: nobody}))
	idle := func(sec int) *op { return calling(sec*second, sec*second+5, sees(nobody)) }
	owned := calling(3*second, 3*second+5, gets(bob, 10))
	troubles := []trouble{{from: 2 * time.Second, to: 3 * time.Second, of: everything}}
	for name, c := range map[string]struct {
		history  []*op
		troubles []trouble
		want     int
	}{
		"idle for long":           {[]*op{wait, idle(2), idle(4)}, nil, 1},
		"idle for a moment":       {[]*op{wait, idle(2)}, nil, 0},
		"idle before and after":   {[]*op{wait, idle(2), owned, idle(4)}, nil, 0},
		"idle while it came":      {[]*op{wait, idle(0), idle(4)}, nil, 0},
		"idle because of a fault": {[]*op{wait, idle(2), idle(4)}, troubles, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := vainWaits(c.history, c.troubles); len(got) != c.want {
				t.Errorf("got %v, want %d wrong", got, c.want)
			}
		})
	}
}

func TestWrongEndingsAreSeen(t *testing.T) {
	const alice = party(1)
	frees := func(sent, got int, id string, a answer) *op {
		o := at(sent, got, does(release, alice, a))
		o.opID = id
		return o
	}
	lost := func(ended string) *op {
		o := at(60, 70, does(guard, alice, notOwner))
		o.ended = ended
		return o
	}
	owns := at(0, 5, gets(alice, 10))
	for name, c := range map[string]struct {
		history []*op
		want    int
	}{
		"released, as it was":        {[]*op{owns, frees(10, 0, "a", unknown), frees(20, 25, "a", released)}, 0},
		"already released, by whom?": {[]*op{owns, frees(10, 0, "a", unknown), frees(120, 125, "a", freedBefore)}, 1},
		"by another of its releases": {[]*op{owns, frees(10, 0, "", unknown), frees(20, 25, "a", freedBefore)}, 0},
		"lost, but how?":             {[]*op{owns, frees(10, 0, "a", unknown), frees(20, 25, "a", notOwner)}, 1},
		"lost, for W is over":        {[]*op{owns, frees(10, 0, "a", unknown), frees(120, 125, "a", notOwner)}, 0},
		"never released":             {[]*op{owns, lost("released")}, 1},
		"never broken":               {[]*op{owns, lost("broken")}, 1},
		"broken":                     {[]*op{owns, at(10, 15, breaks(10)), lost("broken")}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := wrongEndings(c.history); len(got) != c.want {
				t.Errorf("got %v, want %d wrong", got, c.want)
			}
		})
	}
}

// A run can be replayed only if its faults are the same.
func TestFaultsAreThoseOfTheSeed(t *testing.T) {
	a, b, other := newScheduler(7), newScheduler(7), newScheduler(8)
	differ := false
	for range 100 {
		x, restX := a.next()
		y, restY := b.next()
		if len(x) != len(y) || x[0] != y[0] || restX != restY {
			t.Fatalf("got %v and %v of one seed", x, y)
		}
		z, _ := other.next()
		differ = differ || z[0] != x[0]
	}
	if !differ {
		t.Error("two seeds have the same faults")
	}
}
