package history_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// mutexes are few, so that there is always somebody else. A run may use fewer.
const mutexes = 10

// run is one service with clients at work, and what they wrote down.
type run struct {
	t      testing.TB
	habits habits
	urls   []string // of its replicas
	began  time.Time
	over   func() bool // whether the clients are to end

	parties  atomic.Int64
	count    atomic.Int64
	register [mutexes]register
	lastSeen [mutexes]atomic.Int64 // the newest fence that anybody was told of
	troubles []trouble             // that there were

	mu     sync.Mutex
	ops    []*op   // guarded by mu
	writes []write // guarded by mu
}

func (r *run) now() time.Duration { return time.Since(r.began) }

func (r *run) newParty() party { return party(r.parties.Add(1)) }

// client is one of those who want the mutexes. Its calls can be made at once:
// each takes a connection of its own.
type client struct {
	*run
	id   int
	http []*harness.Client // by replica
	home atomic.Int64      // the replica that it calls
	rng  *rand.Rand        // of the client's one main goroutine
}

func (r *run) newClient(id int, seed uint64) *client {
	c := &client{run: r, id: id, rng: rand.New(rand.NewPCG(seed, uint64(id)))}
	for _, url := range r.urls {
		c.http = append(c.http, harness.NewClient(url))
	}
	c.home.Store(int64(id % len(r.urls)))
	return c
}

// moveFrom makes another replica the client's home, where this one still is.
func (c *client) moveFrom(replica int) {
	c.home.CompareAndSwap(int64(replica), int64((replica+1)%len(c.urls)))
}

// roam makes any replica the client's home.
func (c *client) roam() { c.home.Store(c.rng.Int64N(int64(len(c.urls)))) }

// anyMutex prefers the first where a long line is wanted.
func (c *client) anyMutex() int {
	if c.rng.IntN(100) < c.habits.crowd {
		return 0
	}
	return c.rng.IntN(c.habits.mutexes)
}

// claim is one party's business with one mutex.
type claim struct {
	*client
	mutex           int
	party           party
	ttl, transition time.Duration
	fence           int64         // once it owns
	sent            time.Duration // of the last success that it was told of
}

func (c *client) claim(ttl, transition time.Duration) *claim {
	return &claim{client: c, mutex: c.anyMutex(), party: c.newParty(), ttl: ttl, transition: transition}
}

func (c *claim) window() time.Duration { return c.ttl + c.transition }

// prepared is a call that can be made from any goroutine.
type prepared struct {
	c            *client
	op           op
	method, path string
	body         any
	batch        bool
	wait         time.Duration
	cut          time.Duration // after which the client vanishes; 0 = never
}

func (c *claim) call(k kind, path string, body map[string]any) prepared {
	body["contender_id"], body["token"] = c.party.contender(), c.party.token()
	return prepared{
		c: c.client, op: op{client: c.id, mutex: c.mutex, kind: k, party: c.party},
		method: "POST", path: mutexPath(c.mutex) + path, body: body,
	}
}

func mutexPath(m int) string { return "/v1/mutexes/m" + strconv.Itoa(m) }

func (c *claim) acquire(wait time.Duration) prepared {
	p := c.call(acquire, "/acquire", map[string]any{
		"wait_ms": wait.Milliseconds(), "ttl_ms": c.ttl.Milliseconds(), "transition_ms": c.transition.Milliseconds(),
	})
	p.wait, p.op.asked = wait, c.window()
	p.op.waits = c.habits.faults && wait > 0
	return p
}

// guard is sent as a batch of one now and then.
func (c *claim) guard() prepared {
	if c.rng.IntN(4) > 0 {
		return c.call(guard, "/guard", map[string]any{})
	}
	item := map[string]any{"mutex": fmt.Sprint("m", c.mutex), "contender_id": c.party.contender(), "token": c.party.token()}
	return prepared{
		c: c.client, op: op{client: c.id, mutex: c.mutex, kind: guard, party: c.party},
		method: "POST", path: "/v1/guard", body: map[string]any{"ownerships": []any{item}}, batch: true,
	}
}

func (c *claim) release(opID string) prepared {
	body := map[string]any{}
	if opID != "" {
		body["operation_id"] = opID
	}
	p := c.call(release, "/release", body)
	p.op.opID = opID
	return p
}

func (c *client) check(mutex int, fence int64) prepared {
	return prepared{
		c: c, op: op{client: c.id, mutex: mutex, kind: check, fence: fence},
		method: "POST", path: mutexPath(mutex) + "/check", body: map[string]any{"fencing_token": fence},
	}
}

func (c *client) breaking(mutex int, fence int64) prepared {
	return prepared{
		c: c, op: op{client: c.id, mutex: mutex, kind: breaking, fence: fence},
		method: "DELETE", path: fmt.Sprintf("%s/owner?fencing_token=%d&reason=stuck", mutexPath(mutex), fence),
	}
}

// vanish closes the socket after d, whether there was an answer or not.
func (p prepared) vanish(d time.Duration) prepared {
	p.cut = d
	return p
}

// do makes the call and writes it down. Whoever has no answer once its
// patience is over will not get one.
func (p prepared) do() *op {
	ctx, cancel := context.WithTimeout(context.Background(), p.wait+p.c.habits.patience)
	defer cancel()
	if p.cut > 0 {
		ctx, cancel = context.WithTimeout(ctx, p.cut)
		defer cancel()
	}
	o := p.op
	o.seen, o.replica = nothing, int(p.c.home.Load())
	o.sent = p.c.now()
	reply, err := p.c.http[o.replica].Call(ctx, p.method, p.path, p.body)
	o.got = p.c.now()
	o.left = o.got
	switch {
	case err != nil:
		o.answer, o.got = unknown, never
	case p.batch:
		o.takeBatch(reply)
	default:
		o.take(reply)
	}
	if o.failed() && p.cut == 0 {
		p.c.moveFrom(o.replica)
	}
	p.c.record(&o)
	return &o
}

// failed reports whether to try again, elsewhere.
func (o *op) failed() bool { return o.answer == unknown || o.answer == undone }

// together makes calls at the same moment.
func together(calls ...prepared) []*op {
	ops := make([]*op, len(calls))
	var wg sync.WaitGroup
	for i, p := range calls {
		wg.Go(func() { ops[i] = p.do() })
	}
	wg.Wait()
	return ops
}

func (r *run) record(o *op) {
	r.count.Add(1)
	if o.seen > 0 {
		r.lastSeen[o.mutex].Store(o.seen)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops = append(r.ops, o)
}

// do makes a call of the claim, and remembers what it owns.
func (c *claim) do(p prepared) bool {
	o := p.do()
	if o.answer == owned {
		c.fence, c.sent = o.seen, o.sent
	}
	return o.answer == owned
}

// sleepUntil lets time pass, as clients do between their calls.
func sleepUntil(r *run, at time.Duration) { time.Sleep(at - r.now()) }

func (c *client) upTo(d time.Duration) time.Duration {
	return time.Duration(c.rng.Int64N(max(1, int64(d))))
}
