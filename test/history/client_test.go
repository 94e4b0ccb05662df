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

// mutexes are few, so that there is always somebody else.
const mutexes = 4

// run is one replica with clients at work, and what they wrote down.
type run struct {
	t        testing.TB
	replica  *harness.Replica
	began    time.Time
	parties  atomic.Int64
	count    atomic.Int64
	register [mutexes]register
	lastSeen [mutexes]atomic.Int64 // the newest fence that anybody was told of

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
	http *harness.Client
	rng  *rand.Rand // of the client's one main goroutine
}

func (r *run) newClient(id int, seed uint64) *client {
	return &client{run: r, id: id, http: r.replica.Client(), rng: rand.New(rand.NewPCG(seed, uint64(id)))}
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
	return &claim{client: c, mutex: c.rng.IntN(mutexes), party: c.newParty(), ttl: ttl, transition: transition}
}

func (c *claim) window() time.Duration { return c.ttl + c.transition }

// prepared is a call that can be made from any goroutine.
type prepared struct {
	c            *client
	op           op
	method, path string
	body         any
	batch        bool
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
	return c.call(acquire, "/acquire", map[string]any{
		"wait_ms": wait.Milliseconds(), "ttl_ms": c.ttl.Milliseconds(), "transition_ms": c.transition.Milliseconds(),
	})
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

// do makes the call and writes it down. Whoever has no answer after this long
// will not get one.
func (p prepared) do() *op {
	const longest = 30 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	if p.cut > 0 {
		ctx, cancel = context.WithTimeout(ctx, p.cut)
		defer cancel()
	}
	o := p.op
	o.seen = nothing
	o.sent = p.c.now()
	reply, err := p.c.http.Call(ctx, p.method, p.path, p.body)
	o.got = p.c.now()
	switch {
	case err != nil:
		o.answer, o.got = unknown, never
	case p.batch:
		o.takeBatch(reply)
	default:
		o.take(reply)
	}
	p.c.record(&o)
	return &o
}

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

func (c *client) upTo(d time.Duration) time.Duration { return time.Duration(c.rng.Int64N(int64(d))) }
