package etcdstore

import (
	"sync"
	"time"
)

// The window clock's tolerances. Heartbeats are put once a second and ticks
// come every 100 ms: twice and five times that are ordinary jitter, and what
// is beyond was an outage, which is not the owners' fault.
const (
	tickEvery = 100 * time.Millisecond
	tickGap   = 500 * time.Millisecond
	beatEvery = time.Second
	commitGap = 2 * time.Second
)

// windowClock counts the windows. It is monotonic, and runs only while this
// replica can commit: never further than commitGap past the last committed
// heartbeat, nor further than tickGap past its own last tick (the process was
// stopped). So whatever an owner could not have guarded in is not counted.
//
// Interleaving that this closes: etcd stops for 20 s, the owner's guards fail;
// etcd comes back. A clock that had run on would find W over and expire the
// owner before its next guard arrives.
type windowClock struct {
	mu      sync.Mutex
	start   time.Time     // of the process's monotonic clock
	elapsed time.Duration // window time up to last; guarded by mu
	last    time.Duration // real time up to which elapsed counts; guarded by mu
	commit  time.Duration // real time of the last committed heartbeat; guarded by mu
	tick    time.Duration // real time of the last tick; guarded by mu
}

func newWindowClock() *windowClock { return &windowClock{start: time.Now()} }

// Now returns the window time since the clock was made.
func (c *windowClock) Now() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.advance(time.Since(c.start))
	return c.elapsed
}

// Tick says that the process runs.
func (c *windowClock) Tick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := time.Since(c.start)
	c.advance(t)
	c.last, c.tick = t, t
}

// Committed says that a heartbeat was committed.
func (c *windowClock) Committed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := time.Since(c.start)
	c.advance(t)
	c.last, c.commit = t, t
}

// advance counts up to t, or to the first limit before it.
func (c *windowClock) advance(t time.Duration) {
	limit := min(t, c.commit+commitGap, c.tick+tickGap)
	if limit > c.last {
		c.elapsed += limit - c.last
		c.last = limit
	}
}
