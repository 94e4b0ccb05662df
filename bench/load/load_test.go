package load_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-lock/holdfast/bench/load"
)

func TestClosedCountsWhatIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := load.Closed(4, time.Second, load.Timed(func(int) error {
			time.Sleep(10 * time.Millisecond)
			return nil
		}))
		if err != nil || s.Ops != 400 || s.PerSecond() != 400 || s.P(50).Round(time.Millisecond) != 10*time.Millisecond {
			t.Errorf("got %d, %v/s, p50 %v, %v; want 400 of 10ms", s.Ops, s.PerSecond(), s.P(50), err)
		}
	})
}

// One that is slow makes those slow that should have begun meanwhile.
func TestOpenCountsFromWhenItShouldHaveBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := true
		s, err := load.Open(100, 1, time.Second, func(int) error {
			if first {
				first = false
				time.Sleep(500 * time.Millisecond)
			}
			return nil
		})
		if err != nil || s.Ops != 100 {
			t.Fatalf("got %d operations, %v; want 100", s.Ops, err)
		}
		// Of those, 50 began late: by 500 ms, 490 ms, …
		if p := s.P(75).Round(10 * time.Millisecond); p < 230*time.Millisecond || p > 270*time.Millisecond {
			t.Errorf("got p75 %v, want about 250ms", p)
		}
		if p := s.P(40); p > time.Millisecond {
			t.Errorf("got p40 %v, want nothing", p)
		}
	})
}

func TestAnErrorEndsTheLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		if _, err := load.Closed(8, time.Hour, load.Timed(func(int) error { return broken })); !errors.Is(err, broken) {
			t.Errorf("got %v, want %v", err, broken)
		}
	})
}
