package torture_test

import (
	"fmt"
	"testing"
	"time"
)

// Locks of 10 s were freed after 20 to 35 s, and a delay of 0 became the
// default (hashicorp/consul 4508).
func TestT31FreedInTime(t *testing.T) {
	const rounds = 7
	s := open(t)
	for _, ttl := range []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second} {
		for _, transition := range []time.Duration{0, 2 * time.Second} {
			t.Run(fmt.Sprintf("ttl %v transition %v", ttl, transition), func(t *testing.T) {
				t.Parallel()
				freedInTime(t, s, rounds, ttl, transition)
			})
		}
	}
}

// freedInTime lets holders go silent, a little one after the other, each with
// somebody who waits.
func freedInTime(t *testing.T, s *stage, rounds int, ttl, transition time.Duration) {
	w := ttl + transition
	holders, next := make([]grant, rounds), make([]*poll, rounds)
	for i := range rounds {
		mutex := fmt.Sprintf("deploy-%d-%d-%d", ttl.Milliseconds(), transition.Milliseconds(), i)
		holders[i] = s.partyOf(t, "alice").Acquires(mutex, windows(ttl, transition))
		next[i] = s.partyOf(t, "bob").Waits(mutex, generous, long)
		time.Sleep(20 * time.Millisecond) // so that they do not end in the same moment
	}
	var late []time.Duration
	for i, h := range holders {
		if h.Int("ttl_ms") != ttl.Milliseconds() || h.Int("transition_ms") != transition.Milliseconds() {
			t.Errorf("got %s, want the windows that were asked for", h.Raw)
		}
		if transition == 0 && h.String("transition_at") != h.String("ttl_at") {
			t.Errorf("got %s, want no transition at all", h.Raw)
		}
		freed := next[i].Owns().got
		if took := freed.Sub(h.sent); took < w {
			t.Errorf("freed after %v, want %v at least", took, w)
		}
		late = append(late, freed.Sub(h.got)-w)
	}
	seldomLate(t, "late by", 100*time.Millisecond, late)
}

// A guard starts both windows again: with 300 ms and 200 ms, a waiter owns 500
// to 600 ms after the last one.
func TestP3P4FreedInTimeAfterTheLastGuard(t *testing.T) {
	const w = 500 * time.Millisecond
	s := open(t)
	var late []time.Duration
	for i := range 9 {
		mutex := fmt.Sprintf("guarded-%d", i)
		alice := s.partyOf(t, "alice")
		alice.Acquires(mutex, windows(300*time.Millisecond, 200*time.Millisecond))
		next := s.partyOf(t, "bob").Waits(mutex, generous, long)
		guarded := alice.Guards(mutex)
		freed := next.Owns().got
		if took := freed.Sub(guarded.sent); took < w {
			t.Errorf("freed %v after the guard, want %v at least", took, w)
		}
		late = append(late, freed.Sub(guarded.got)-w)
	}
	seldomLate(t, "late by", 100*time.Millisecond, late)
}
