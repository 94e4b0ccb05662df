package history_test

import (
	"fmt"
	"time"
)

// shaken are the habits of clients under faults.
var shaken = habits{
	mutexes: 10, crowd: 35, sessions: append([]session{
		{16, (*client).keep},
		{14, (*client).abandon},
		{16, (*client).startAfresh},
	}, scaled(ordinary, 54)...),
	pause: 40 * time.Millisecond, wait: 600 * time.Millisecond, patience: 4 * time.Second, spread: 2500 * time.Millisecond, faults: true,
}

// scaled are the same sessions, to be chosen so many times of 100 in all.
func scaled(list []session, weight int) (all []session) {
	left := weight
	for _, s := range list {
		s.weight = (s.weight*weight + 50) / 100
		left -= s.weight
		all = append(all, s)
	}
	all[0].weight += left
	return all
}

// keep wants a mutex for a while, and goes on wherever it is answered.
func (c *client) keep() {
	cl := c.claim(c.long())
	if !cl.insist(time.Second + c.upTo(5*time.Second)) {
		if c.rng.IntN(2) == 0 {
			cl.surely(cl.release(fmt.Sprintf("release-of-%d", cl.party)), 5*time.Second)
		}
		return
	}
	for range 1 + c.rng.IntN(5) {
		sleepUntil(c.run, cl.sent+cl.ttl/3)
		if o := cl.surely(cl.guard(), cl.sent+cl.window()-c.now()); o.answer != owned {
			break
		}
		cl.write(cl.mutex, cl.fence)
	}
	if c.rng.IntN(8) > 0 {
		cl.surely(cl.release(fmt.Sprintf("release-of-%d", cl.party)), 10*time.Second)
	}
}

// insist polls, with one token, through one replica after the other.
func (c *claim) insist(patience time.Duration) bool {
	for end := c.now() + patience; c.now() < end; {
		if c.rng.IntN(3) == 0 {
			c.roam()
		}
		o := c.acquire(c.upTo(2 * time.Second)).do()
		switch {
		case o.answer == owned:
			c.fence, c.sent = o.seen, o.sent
			return true
		case o.answer == spent || o.answer == passed:
			return false
		case o.failed():
			time.Sleep(c.upTo(200 * time.Millisecond))
		}
	}
	return false
}

// surely repeats a call until its outcome is known.
func (c *claim) surely(p prepared, patience time.Duration) *op {
	end := c.now() + patience
	for {
		o := p.do()
		if o.answer == owned {
			c.fence, c.sent = o.seen, o.sent
		}
		if !o.failed() || c.now() > end || c.over() {
			return o
		}
		time.Sleep(c.upTo(200 * time.Millisecond))
	}
}

// abandon closes the socket while it waits. Some come again.
func (c *client) abandon() {
	cl := c.claim(c.long())
	cl.acquire(5 * time.Second).vanish(50*time.Millisecond + c.upTo(3*time.Second)).do()
	switch c.rng.IntN(4) {
	case 0:
		if cl.insist(c.upTo(4 * time.Second)) {
			cl.use()
			cl.giveBack()
		}
	case 1:
		cl.surely(cl.release(""), 5*time.Second)
	}
}

// startAfresh gives up on a token at the first failure, as those do who have
// crashed: a broken connection leaves nobody behind.
func (c *client) startAfresh() {
	cl := c.claim(c.long())
	if cl.do(cl.acquire(4*time.Second + c.upTo(6*time.Second))) {
		cl.use()
		cl.giveBack()
	}
}
