package etcdstore

import (
	"context"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/singleflight"
)

// Leases are pooled: one of its own per lock, granted and revoked, makes a
// pair of acquire and release four to five times slower, and revoking one with
// 20,000 keys stalls etcd for half a second. None is ever revoked: those that
// nothing hangs on any more are left to lapse.
const (
	keysPerLease = 1000

	lineTTL    = 15 * time.Second  // a waiter's, while its replica lives
	awayTTL    = 15 * time.Second  // not kept alive: 10 s to 15 s for a place
	awayUse    = 5 * time.Second   // for so long keys are put on it
	settledTTL = 130 * time.Second // not kept alive: at least two minutes
	settledUse = 10 * time.Second
	ownerTTL   = 120 * time.Second // times 2^k, at least twice W
)

// pool hands out leases of one kind.
type pool struct {
	ttl time.Duration
	// use is how long keys are put on a lease that is not kept alive; 0: they
	// are kept alive for as long as they are needed.
	use time.Duration
	// hanging counts the keys on a lease as the view has them; nil where a key
	// lives no longer than the reservation made for it.
	hanging func(id int64) int

	granting singleflight.Group

	mu   sync.Mutex
	last *lease   // guarded by mu
	kept []*lease // kept alive, last among them; guarded by mu
}

// lease is one of a pool; guarded by the pool's mu.
type lease struct {
	id       int64
	granted  time.Time
	renewed  time.Time
	reserved int // keys that are about to hang on it, or, without hanging, do
	gone     bool
}

// load is how many keys count against l.
func (p *pool) load(l *lease) int {
	if p.hanging == nil {
		return l.reserved
	}
	return l.reserved + p.hanging(l.id)
}

func (p *pool) usable(l *lease) bool {
	if l == nil || l.gone || p.use > 0 && time.Since(l.granted) >= p.use {
		return false
	}
	return p.load(l) < keysPerLease
}

// pick returns a usable lease, or nil.
func (p *pool) pick() *lease {
	if p.usable(p.last) {
		return p.last
	}
	for _, l := range p.kept {
		if p.usable(l) {
			p.last = l
			return l
		}
	}
	return nil
}

// reserve returns a lease to put one key on, granting one where needed. For a
// pool that is kept alive, done ends the reservation, when the key is written
// and the view counts it, or when it is not.
func (s *Store) reserve(p *pool) (*lease, error) {
	for {
		if l := p.take(); l != nil {
			return l, nil
		}
		// One grant for all who wait for it: while etcd is silent they fail
		// together, not one after the other.
		if _, err, _ := p.granting.Do("", func() (any, error) { return nil, s.extend(p) }); err != nil {
			return nil, err
		}
	}
}

func (p *pool) take() *lease {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.pick()
	if l != nil {
		l.reserved++
	}
	return l
}

// extend grants a pool its next lease.
func (s *Store) extend(p *pool) error {
	l, err := s.grant(p.ttl)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = l
	if p.use == 0 {
		p.kept = append(p.kept, l)
	}
	return nil
}

func (p *pool) done(l *lease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.reserved--
}

func (s *Store) grant(ttl time.Duration) (*lease, error) {
	ctx, cancel := s.bounded()
	defer cancel()
	at := time.Now()
	resp, err := hedged(ctx, s.hedgeEvery(), func(ctx context.Context) (*clientv3.LeaseGrantResponse, error) {
		return s.cli.Grant(ctx, int64(ttl/time.Second)) // one too many lapses
	})
	if err != nil {
		return nil, err
	}
	return &lease{id: int64(resp.ID), granted: at, renewed: at}, nil
}

// drop makes the next key go onto another lease.
func (p *pool) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last != nil {
		p.last.gone = true
	}
}

// forget drops a lease that etcd says is gone, so that the next key goes onto
// another.
func (p *pool) forget(id int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range append([]*lease{p.last}, p.kept...) {
		if l != nil && l.id == id {
			l.gone = true
		}
	}
}

// ownerPool returns the pool for ownerships of window W: 120 s times 2^k, the
// first that is at least 2 W, so that a lease which is kept alive every third
// of its time outlives every window.
func (s *Store) ownerPool(window time.Duration) *pool {
	ttl := ownerTTL
	for ttl < 2*window {
		ttl *= 2
	}
	s.poolsMu.Lock()
	defer s.poolsMu.Unlock()
	p := s.ownerPools[ttl]
	if p == nil {
		p = &pool{ttl: ttl, hanging: s.view.keysOn}
		s.ownerPools[ttl] = p
	}
	return p
}

func (s *Store) forgetLease(id int64) {
	s.poolsMu.Lock()
	pools := []*pool{&s.linePool, &s.awayPool, &s.settledPool}
	for _, p := range s.ownerPools {
		pools = append(pools, p)
	}
	s.poolsMu.Unlock()
	for _, p := range pools {
		p.forget(id)
	}
}

// keysOn returns how many owners' keys hang on a lease.
func (v *view) keysOn(id int64) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.leases[id]
}

// keepLeases keeps alive what is needed, every third of its TTL, by a loop of
// our own: clientv3.KeepAlive gives up for good after one TTL of silence.
func (s *Store) keepLeases() {
	for s.sleep(jitter(time.Second)) {
		s.poolsMu.Lock()
		pools := []*pool{&s.linePool}
		for _, p := range s.ownerPools {
			pools = append(pools, p)
		}
		s.poolsMu.Unlock()
		for _, p := range pools {
			for _, l := range p.toRenew() {
				s.renew(p, l)
			}
		}
	}
}

// toRenew returns the leases that are due, and lets go of those that nothing
// hangs on any more.
func (p *pool) toRenew() []*lease {
	p.mu.Lock()
	defer p.mu.Unlock()
	var due, kept []*lease
	for _, l := range p.kept {
		if l.gone || l != p.last && p.load(l) == 0 {
			continue
		}
		kept = append(kept, l)
		if time.Since(l.renewed) >= p.ttl/3 {
			due = append(due, l)
		}
	}
	p.kept = kept
	return due
}

func (s *Store) renew(p *pool, l *lease) {
	ctx, cancel := context.WithTimeout(s.ctx, s.cfg.Timeout)
	defer cancel()
	at := time.Now()
	_, err := s.cli.KeepAliveOnce(ctx, clientv3.LeaseID(l.id))
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err == nil:
		l.renewed = at
	case leaseGone(err):
		l.gone = true
	}
}

// lostLeases are those of other replicas that etcd says are gone, although
// waiters still name them.
type lostLeases struct {
	mu  sync.Mutex
	ids map[int64]bool // guarded by mu
}

func (l *lostLeases) add(id int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ids == nil {
		l.ids = map[int64]bool{}
	}
	l.ids[id] = true
}

func (l *lostLeases) has(id int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ids[id]
}
