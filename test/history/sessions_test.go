package history_test

import (
	"fmt"
	"time"
)

// Windows. Those who mean to keep a mutex have windows that a busy machine
// does not outlast; the others end by themselves all the time.
const (
	longTTL         = 1500 * time.Millisecond
	longTransition  = 500 * time.Millisecond
	briefTTL        = 100 * time.Millisecond
	briefTransition = 60 * time.Millisecond
)

// habits are what differs between runs.
type habits struct {
	mutexes  int
	crowd    int // of 100 who want a mutex want the first
	sessions []session
	pause    time.Duration // up to so long between sessions
	wait     time.Duration // up to so long in line, mostly
	patience time.Duration // without an answer, besides what it asked to wait
	spread   time.Duration // of the windows of those who mean to keep a mutex
	faults   bool
}

// session is what a client does next, and how often of 100 times.
type session struct {
	weight int
	run    func(*client)
}

// quiet are the habits of clients of one replica without faults.
var quiet = habits{
	mutexes: 4, sessions: ordinary, wait: 100 * time.Millisecond, patience: 30 * time.Second,
}

var ordinary = []session{
	{35, (*client).behave},
	{12, (*client).guardLate},
	{14, (*client).vanishInAcquire},
	{6, (*client).forget},
	{14, (*client).repeatAfterCut},
	{8, (*client).actAsStranger},
	{3, (*client).breakIn},
	{8, (*client).twins},
}

func (c *client) work() {
	for !c.over() {
		roll := c.rng.IntN(100)
		for _, s := range c.habits.sessions {
			if roll -= s.weight; roll < 0 {
				s.run(c)
				break
			}
		}
		time.Sleep(c.upTo(c.habits.pause))
	}
}

// long returns the windows of those who mean to keep a mutex.
func (c *client) long() (ttl, transition time.Duration) {
	return longTTL + c.upTo(c.habits.spread), longTransition + c.upTo(c.habits.spread/5)
}

// get acquires, with a wait or without.
func (c *claim) get() bool {
	wait := time.Duration(0)
	if c.rng.IntN(2) == 0 {
		wait = c.upTo(c.habits.wait)
	}
	return c.do(c.acquire(wait))
}

// behave is what a good client does.
func (c *client) behave() {
	cl := c.claim(c.long())
	if !cl.get() {
		return
	}
	cl.use()
	cl.giveBack()
}

// use does a few of the things that an owner does.
func (c *claim) use() {
	for range 1 + c.rng.IntN(4) {
		switch c.rng.IntN(5) {
		case 0, 1:
			c.do(c.guard())
		case 2:
			c.check(c.mutex, c.fence).do()
		case 3:
			c.write(c.mutex, c.fence)
		case 4:
			c.do(c.acquire(0))
		}
	}
}

// giveBack releases, alone or against a call that was still on its way.
func (c *claim) giveBack() {
	opID := ""
	if c.rng.IntN(2) == 0 {
		opID = fmt.Sprintf("release-of-%d", c.party)
	}
	end := c.release(opID)
	switch c.rng.IntN(6) {
	case 0:
		together(end, end)
	case 1:
		together(end, c.guard())
	case 2:
		together(c.guard(), end, c.guard(), c.check(c.mutex, c.fence))
	case 3:
		together(end, c.acquire(0))
	default:
		end.do()
	}
	if c.rng.IntN(4) == 0 {
		c.guard().do() // too late
	}
}

// guardLate keeps a mutex by guards that race with its end, through whatever
// replica.
func (c *client) guardLate() {
	cl := c.claim(briefTTL, c.upTo(briefTransition))
	if !cl.get() {
		return
	}
	for range 3 {
		const before, after = 30 * time.Millisecond, 15 * time.Millisecond
		sleepUntil(c.run, cl.sent+cl.window()-before+c.upTo(before+after))
		c.roam()
		if !cl.do(cl.guard()) {
			return
		}
		cl.write(cl.mutex, cl.fence)
	}
}

// vanishInAcquire closes the socket while it waits, or while it is being told.
// Some come again with the same token.
func (c *client) vanishInAcquire() {
	cl := c.claim(briefTTL, briefTransition)
	wait := time.Duration(c.rng.IntN(2)) * c.habits.wait
	cl.acquire(wait).vanish(time.Millisecond + c.upTo(25*time.Millisecond)).do()
	switch c.rng.IntN(6) {
	case 0:
		if cl.get() {
			cl.use()
			cl.giveBack()
		}
	case 1:
		if cl.do(cl.guard()) {
			cl.use()
		}
	case 2:
		cl.release("").do()
	case 3:
		together(cl.acquire(0), cl.check(cl.mutex, max(1, c.lastSeen[cl.mutex].Load())))
	}
}

// forget stops guarding what it owns. Some write long after.
func (c *client) forget() {
	cl := c.claim(briefTTL, c.upTo(briefTransition))
	if !cl.get() {
		return
	}
	cl.write(cl.mutex, cl.fence)
	if c.rng.IntN(2) == 0 {
		sleepUntil(c.run, cl.sent+cl.window()+briefTTL)
		cl.write(cl.mutex, cl.fence)
	}
}

// repeatAfterCut loses the connection with a call on its way, and makes the
// same call again.
func (c *client) repeatAfterCut() {
	cl := c.claim(c.long())
	if !cl.get() {
		return
	}
	cut := 300*time.Microsecond + c.upTo(5*time.Millisecond)
	if c.rng.IntN(2) == 0 {
		g := cl.guard()
		g.vanish(cut).do()
		cl.do(g)
	}
	end := cl.release(fmt.Sprintf("release-of-%d", cl.party))
	end.vanish(cut).do()
	if o := end.do(); o.answer == unknown || c.rng.IntN(3) == 0 {
		end.do()
	}
}

// actAsStranger uses what it never owned.
func (c *client) actAsStranger() {
	cl := c.claim(c.long())
	last := max(1, c.lastSeen[cl.mutex].Load())
	for range 2 {
		switch c.rng.IntN(10) {
		case 0, 1, 2:
			cl.guard().do()
		case 3, 4, 5:
			cl.release("").do()
		case 6, 7, 8:
			c.check(cl.mutex, last).do()
		case 9:
			c.breaking(cl.mutex, max(1, last-int64(c.rng.IntN(20)))).vanish(c.upTo(20*time.Millisecond) + time.Millisecond).do()
		}
	}
}

// breakIn breaks whatever there is, at times twice at once.
func (c *client) breakIn() {
	m := c.anyMutex()
	now := c.check(m, max(1, c.lastSeen[m].Load())).do()
	if now.seen <= 0 {
		return
	}
	b := c.breaking(m, now.seen)
	if c.rng.IntN(2) == 0 {
		together(b, b)
		return
	}
	b.do()
}

// twins are two connections with one token.
func (c *client) twins() {
	cl := c.claim(c.long())
	wait := time.Duration(c.rng.IntN(2)) * c.habits.wait
	for _, o := range together(cl.acquire(wait), cl.acquire(wait)) {
		if o.answer == owned {
			cl.fence, cl.sent = o.seen, o.sent
		}
	}
	if cl.fence == 0 {
		cl.release("").do() // out of the line
		return
	}
	together(cl.guard(), cl.guard())
	cl.giveBack()
}
