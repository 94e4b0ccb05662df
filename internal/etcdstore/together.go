package etcdstore

import (
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// apart is how many proposals are on their way before those that come later
	// are put together: so a quiet service waits for nobody.
	apart = 4
	// overdue is how long a transaction waits for one of those to end. They take
	// less, unless etcd is slow, or a member has stopped: then it goes beside
	// them.
	overdue = 10 * time.Millisecond
	// mostOps is what etcd allows to one transaction, those nested in it
	// included; of these the longest list counts.
	mostOps = 128
)

// together sends transactions that come at once as one: a proposal costs a turn
// of Raft and a sync of the disk, whatever is in it. They are nested in it, each
// with its own comparisons, so that each happens or not as it would alone. All
// of them are compared before any of them writes, and a key may be written only
// once: so there is one of a mutex at most, and what is of no mutex goes alone.
type together struct {
	mu      sync.Mutex
	flying  int         // proposals on their way; guarded by mu
	waiting []*ticket   // in order; guarded by mu
	late    *time.Timer // runs while any wait; guarded by mu
}

// ticket is a transaction that waits.
type ticket struct {
	t    *txn
	turn chan []*ticket // gets those to be sent with it, or nil when it was sent
	resp *clientv3.TxnResponse
	err  error
}

// commit commits t. It may be sent more than once, and happens once: what the
// first wrote makes the comparisons of the others fail. Then one of those may be
// answered, and the decision that is made again finds what the first has done.
// A copy that is still on its way may happen later, when what it compares has
// become true again.
func (s *Store) commit(t *txn) (*clientv3.TxnResponse, error) {
	if t.mutex == "" {
		return s.send(t)
	}
	p := s.together.enter(t)
	if p == nil {
		defer s.together.leave()
		return s.send(t)
	}
	if batch := <-p.turn; batch != nil {
		defer s.together.leave()
		s.sendAll(batch)
	}
	return p.resp, p.err
}

// enter returns nil when t is to be sent at once.
func (g *together) enter(t *txn) *ticket {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.flying < apart && len(g.waiting) == 0 {
		g.flying++
		return nil
	}
	p := &ticket{t: t, turn: make(chan []*ticket, 1)}
	g.waiting = append(g.waiting, p)
	if len(g.waiting) == 1 {
		g.late = time.AfterFunc(overdue, g.sendLate)
	}
	return p
}

// leave says that a proposal has ended; the next takes its place.
func (g *together) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.flying--; g.flying < apart {
		g.next()
	}
}

// sendLate sends those who have waited for too long.
func (g *together) sendLate() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.next()
}

// next has the first of those who wait send what goes with it. mu is held.
func (g *together) next() {
	if len(g.waiting) == 0 {
		return
	}
	g.late.Stop()
	batch := g.pick()
	g.flying++
	batch[0].turn <- batch
	if len(g.waiting) > 0 {
		g.late = time.AfterFunc(overdue, g.sendLate)
	}
}

// pick takes out those that fit into one proposal, one at least. mu is held.
func (g *together) pick() (batch []*ticket) {
	longest := 0
	taken := map[string]bool{}
	rest := g.waiting[:0]
	for i, p := range g.waiting {
		size := max(longest, p.t.size())
		if len(batch) > 0 && len(batch)+1+size > mostOps {
			rest = append(rest, g.waiting[i:]...)
			break
		}
		if name := string(p.t.mutex); taken[name] {
			rest = append(rest, p)
		} else {
			taken[name], longest = true, size
			batch = append(batch, p)
		}
	}
	clear(g.waiting[len(rest):])
	g.waiting = rest
	return batch
}

// size is how much of mostOps t takes.
func (t *txn) size() int { return max(len(t.cmps), len(t.ops)) }

// sendAll sends a batch and answers it; the first of them is the caller's own.
func (s *Store) sendAll(batch []*ticket) {
	if len(batch) == 1 {
		batch[0].resp, batch[0].err = s.send(batch[0].t)
		return
	}
	all := &txn{}
	for _, p := range batch {
		all.ops = append(all.ops, clientv3.OpTxn(p.t.cmps, p.t.ops, nil))
	}
	resp, err := s.send(all)
	if isOfOne(err) {
		s.sendApart(batch)
		return
	}
	for i, p := range batch {
		if p.t.again, p.err = all.again, err; err == nil {
			nested := resp.Responses[i].GetResponseTxn()
			p.resp = &clientv3.TxnResponse{Header: resp.Header, Succeeded: nested.Succeeded, Responses: nested.Responses}
		}
		if i > 0 {
			p.turn <- nil
		}
	}
}

// isOfOne reports whether a batch was refused for one of those in it, so that
// the others would not be.
func isOfOne(err error) bool {
	return leaseGone(err) || is(err, rpctypes.ErrRequestTooLarge) || is(err, rpctypes.ErrTooManyOps)
}

// sendApart sends each of a batch alone.
func (s *Store) sendApart(batch []*ticket) {
	for _, p := range batch[1:] {
		go func() {
			p.resp, p.err = s.send(p.t)
			p.turn <- nil
		}()
	}
	batch[0].resp, batch[0].err = s.send(batch[0].t)
}
