package etcdstore

import (
	"testing"
	"testing/synctest"
	"time"
)

// run lets real time pass, with a tick every 100 ms and, where commits says
// so, a committed heartbeat every second.
func run(c *windowClock, d time.Duration, commits bool) {
	for i := range int(d / tickEvery) {
		time.Sleep(tickEvery)
		c.Tick()
		if commits && i%10 == 9 {
			c.Committed()
		}
	}
}

func TestWindowClock(t *testing.T) {
	for _, tt := range []struct {
		name     string
		during   func(c *windowClock)
		min, max time.Duration // window time that passes
	}{
		{"runs with real time", func(c *windowClock) { run(c, time.Minute, true) }, time.Minute, time.Minute},
		{"a late heartbeat costs nothing", func(c *windowClock) {
			run(c, 1900*time.Millisecond, false)
			c.Committed()
		}, 1900 * time.Millisecond, 1900 * time.Millisecond},
		{"stands still while nothing can be committed", func(c *windowClock) {
			run(c, 30*time.Second, false)
			c.Committed()
		}, commitGap, commitGap},
		{"goes on after an outage", func(c *windowClock) {
			run(c, 30*time.Second, false)
			c.Committed()
			run(c, 5*time.Second, true)
		}, commitGap + 5*time.Second, commitGap + 5*time.Second},
		{"stands still while the process is stopped", func(c *windowClock) {
			time.Sleep(20 * time.Second)
			c.Tick()
			c.Committed()
		}, tickGap, tickGap},
		{"a stop is not counted before its first tick either", func(*windowClock) {
			time.Sleep(20 * time.Second)
		}, tickGap, tickGap},
		{"an outage in which the process was stopped is taken off once", func(c *windowClock) {
			run(c, time.Second, false)
			time.Sleep(10 * time.Second)
			c.Tick()
			run(c, 10*time.Second, false)
			c.Committed()
			run(c, 5*time.Second, true)
		}, 5*time.Second + tickGap + time.Second, 5*time.Second + commitGap},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newWindowClock()
				run(c, 5*time.Second, true)
				before := c.Now()
				tt.during(c)
				if got := c.Now() - before; got < tt.min || got > tt.max {
					t.Errorf("got %v of window time, want %v to %v", got, tt.min, tt.max)
				}
			})
		})
	}
}
