package history_test

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// Operations of hand-made histories, in milliseconds. W is 100.
func at(sent, got int, o op) *op {
	o.sent, o.got = time.Duration(sent)*time.Millisecond, time.Duration(got)*time.Millisecond
	if o.answer == unknown {
		o.got = never
	}
	return &o
}

func gets(p party, fence int64) op {
	return op{kind: acquire, party: p, answer: owned, seen: fence, whose: p, window: 100 * time.Millisecond}
}

func guards(p party, fence int64) op {
	o := gets(p, fence)
	o.kind = guard
	return o
}

func does(k kind, p party, a answer) op { return op{kind: k, party: p, answer: a, seen: nothing} }

func sees(fence int64) op { return op{kind: check, fence: 1, answer: checked, seen: fence} }

func breaks(fence int64) op { return op{kind: breaking, fence: fence, answer: broken, seen: nothing} }

func lost(p party, fence int64, holder party) op {
	return op{kind: guard, party: p, answer: notOwner, seen: fence, whose: holder}
}

func waits(o op) op { o.waits = true; return o }

// The model must tell these apart, or a history that it finds in order says
// nothing.
func TestModelKnowsWhatCanHappen(t *testing.T) {
	const alice, bob, carol = party(1), party(2), party(3)
	opened := func(o op, id string) op { o.opID = id; return o }
	for name, c := range map[string]struct {
		history []*op
		want    porcupine.CheckResult
	}{
		"two owners": {[]*op{at(0, 5, gets(alice, 10)), at(6, 9, gets(bob, 20))}, porcupine.Illegal},
		"a smaller fence": {[]*op{
			at(0, 5, gets(alice, 20)), at(6, 9, does(release, alice, released)), at(10, 15, gets(bob, 10)),
		}, porcupine.Illegal},
		"another fence for the same owner": {[]*op{at(0, 5, gets(alice, 10)), at(6, 9, gets(alice, 20))}, porcupine.Illegal},
		"acquired again":                   {[]*op{at(0, 5, gets(alice, 10)), at(6, 9, gets(alice, 10))}, porcupine.Ok},

		"ended at W":          {[]*op{at(0, 5, gets(alice, 10)), at(6, 100, gets(bob, 20))}, porcupine.Ok},
		"ended before W":      {[]*op{at(0, 5, gets(alice, 10)), at(6, 99, gets(bob, 20))}, porcupine.Illegal},
		"seen to end early":   {[]*op{at(0, 5, gets(alice, 10)), at(6, 99, sees(nobody))}, porcupine.Illegal},
		"lost early":          {[]*op{at(0, 5, gets(alice, 10)), at(6, 99, lost(alice, nobody, 0))}, porcupine.Illegal},
		"guarded, then early": {[]*op{at(0, 5, gets(alice, 10)), at(90, 95, guards(alice, 10)), at(96, 189, sees(nobody))}, porcupine.Illegal},
		"guarded, then ended": {[]*op{at(0, 5, gets(alice, 10)), at(90, 95, guards(alice, 10)), at(96, 190, sees(nobody))}, porcupine.Ok},
		"ended after a wait": {[]*op{
			at(0, 5, gets(alice, 10)), at(1, 95, gets(bob, 20)), at(90, 93, does(release, alice, released)), at(96, 189, sees(nobody)),
		}, porcupine.Illegal}, // bob's W runs from alice's release, not from when he asked

		"revived by a guard": {[]*op{
			at(0, 5, gets(alice, 10)), at(6, 9, does(release, alice, released)), at(10, 15, guards(alice, 10)),
		}, porcupine.Illegal},
		"released twice": {[]*op{
			at(0, 5, gets(alice, 10)), at(6, 9, does(release, alice, released)), at(6, 9, does(release, alice, released)),
		}, porcupine.Illegal},
		"the same release repeated": {[]*op{
			at(0, 5, gets(alice, 10)), at(6, 9, opened(does(release, alice, released), "a")),
			at(10, 15, gets(bob, 20)), at(16, 19, opened(does(release, alice, released), "a")), at(20, 25, sees(20)),
		}, porcupine.Ok},
		"refused as not the owner, but is": {[]*op{at(0, 5, gets(alice, 10)), at(6, 9, does(release, alice, freedBefore))}, porcupine.Illegal},
		"spent, but is the owner":          {[]*op{at(0, 5, gets(alice, 10)), at(6, 9, does(acquire, alice, spent))}, porcupine.Illegal},

		"a stale check": {[]*op{
			at(0, 5, gets(alice, 10)), at(6, 9, does(release, alice, released)), at(10, 15, sees(10)),
		}, porcupine.Illegal},
		"a refusal that names who has gone": {[]*op{
			at(0, 5, gets(alice, 10)), at(6, 9, does(release, alice, released)), at(10, 15, gets(bob, 20)), at(16, 19, lost(alice, 10, alice)),
		}, porcupine.Illegal},

		"a fence out of nowhere": {[]*op{at(0, 5, sees(10))}, porcupine.Illegal},
		"a ghost, for a moment": {[]*op{
			at(0, 0, does(acquire, alice, unknown)), at(1, 5, sees(10)), at(6, 9, sees(nobody)), at(10, 15, gets(bob, 20)),
		}, porcupine.Ok},
		"granted and broken, before it was told": {[]*op{
			at(0, 20, does(acquire, alice, spent)), at(1, 5, sees(10)), at(6, 9, breaks(10)), at(10, 15, gets(bob, 20)),
		}, porcupine.Ok},
		"refused, but owned": {[]*op{
			at(0, 20, op{kind: acquire, party: alice, answer: locked, seen: 20, whose: bob}),
			at(1, 5, op{kind: acquire, party: bob, answer: locked, seen: 10, whose: alice}), at(6, 9, breaks(10)), at(10, 15, gets(bob, 20)),
		}, porcupine.Illegal},
		"a wait that owned, and was refused": {[]*op{
			at(0, 20, waits(op{kind: acquire, party: alice, answer: locked, seen: nobody})), at(1, 5, sees(10)), at(6, 9, sees(nobody)), at(10, 15, gets(bob, 20)),
		}, porcupine.Ok},
		"a wait that owned once it was refused": {[]*op{
			at(0, 20, waits(op{kind: acquire, party: alice, answer: locked, seen: 10, whose: bob})), at(0, 5, gets(bob, 10)),
			at(30, 35, does(release, bob, released)), at(36, 40, op{kind: acquire, party: carol, answer: locked, seen: 20, whose: alice}),
		}, porcupine.Illegal},
		"a wait that owned twice, and was told once": {[]*op{
			at(0, 50, waits(gets(alice, 20))), at(1, 5, op{kind: acquire, party: bob, answer: locked, seen: 10, whose: alice}),
			at(6, 9, sees(nobody)),
		}, porcupine.Ok},
		"a ghost before its time":           {[]*op{at(0, 4, sees(10)), at(5, 0, does(acquire, alice, unknown))}, porcupine.Illegal},
		"a ghost that was told of, by then": {[]*op{at(0, 0, does(acquire, alice, unknown)), at(1, 5, guards(alice, 10)), at(6, 99, sees(nobody))}, porcupine.Illegal},
		"a ghost that is released":          {[]*op{at(0, 0, does(acquire, alice, unknown)), at(1, 5, does(release, alice, released))}, porcupine.Ok},
		"a guard of what was never granted": {[]*op{at(0, 5, guards(alice, 10))}, porcupine.Illegal},

		"a release, perhaps":     {[]*op{at(0, 5, gets(alice, 10)), at(6, 0, does(release, alice, unknown)), at(7, 9, gets(bob, 20))}, porcupine.Ok},
		"a release, but later":   {[]*op{at(0, 5, gets(alice, 10)), at(6, 9, gets(bob, 20)), at(10, 0, does(release, alice, unknown))}, porcupine.Illegal},
		"broken":                 {[]*op{at(0, 5, gets(alice, 10)), at(6, 9, breaks(10)), at(10, 15, gets(bob, 20))}, porcupine.Ok},
		"broken, but still owns": {[]*op{at(0, 5, gets(alice, 10)), at(6, 9, breaks(10)), at(10, 15, guards(alice, 10))}, porcupine.Illegal},
		"broken after its end":   {[]*op{at(0, 5, gets(alice, 10)), at(6, 9, does(release, alice, released)), at(10, 15, breaks(10))}, porcupine.Illegal},
	} {
		t.Run(name, func(t *testing.T) {
			if got := inOrder(c.history); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}
