package etcdstore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/singleflight"
)

// replicaTTL is how long after its last sign a replica counts as alive. etcd
// grants no less than 2 s, and looks for the expired every 500 ms.
const replicaTTL = 3 * time.Second

// idleAfter is how long the heartbeat goes on after the last ownership or
// waiter: an idle service writes nothing.
const idleAfter = time.Minute

// heartbeat says in etcd that this replica is alive, and tells the window
// clock that it can commit.
type heartbeat struct {
	waking singleflight.Group
	kick   chan struct{} // one slot: beat at once

	rousing atomic.Bool // somebody tries until it beats

	leaseMu sync.Mutex // held while one is granted
	lease   int64      // 0 = none; guarded by leaseMu

	mu       sync.Mutex
	beats    bool      // the loop is on; guarded by mu
	inFlight int       // beats without an answer yet; guarded by mu
	failing  time.Time // since when, zero while it does not; guarded by mu
	needed   time.Time // when somebody last needed it; guarded by mu
}

// beatsInFlight bounds how many beats wait for an answer. One a second, they
// overlap where etcd takes longer than that: a slow etcd is no outage.
const beatsInFlight = 5

// awake makes sure that this replica's key is in etcd, for without it nobody
// hands anything over to us. It writes only when the service was idle.
func (s *Store) awake() error {
	if s.heart.isOn() {
		return nil
	}
	_, err, _ := s.heart.waking.Do("", func() (any, error) {
		if s.heart.isOn() {
			return nil, nil
		}
		if err := s.beat(); err != nil {
			return nil, err
		}
		s.heart.mu.Lock()
		defer s.heart.mu.Unlock()
		s.heart.beats = true
		s.wg.Go(s.beatOn)
		return nil, nil
	})
	return err
}

// rouse begins the heartbeat for what another replica wrote: should that one
// die, we end what it left behind, by a clock that runs only while we commit.
func (s *Store) rouse() {
	if s.heart.isOn() || s.ctx.Err() != nil || !s.heart.rousing.CompareAndSwap(false, true) {
		return
	}
	s.wg.Go(func() {
		defer s.heart.rousing.Store(false)
		for {
			err := s.awake()
			s.noteBeat(err)
			if err == nil || !s.sleep(beatEvery) {
				return
			}
		}
	})
}

// isOn reports whether the loop is on, and keeps it on.
func (h *heartbeat) isOn() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.needed = time.Now()
	return h.beats
}

// isOff ends the loop when nothing has needed it for a while.
func (h *heartbeat) isOff(active bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if active {
		h.needed = time.Now()
	}
	if time.Since(h.needed) <= idleAfter {
		return false
	}
	h.beats = false
	return true
}

// soon has the loop beat at once.
func (h *heartbeat) soon() {
	select {
	case h.kick <- struct{}{}:
	default:
	}
}

// beatOn is the loop; it ends when the service has been idle for a while.
func (s *Store) beatOn() {
	h := &s.heart
	ticker := time.NewTicker(beatEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if h.isOff(s.view.isActive()) {
				h.drop(h.current())
				return
			}
		case <-h.kick:
		case <-s.ctx.Done():
			return
		}
		if h.begin() {
			s.wg.Go(s.beatOnce)
		}
	}
}

func (h *heartbeat) begin() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.inFlight == beatsInFlight {
		return false
	}
	h.inFlight++
	return true
}

// end reports whether no other beat is in flight.
func (h *heartbeat) end() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.inFlight--
	return h.inFlight == 0
}

func (s *Store) beatOnce() {
	err := s.beat()
	s.noteBeat(err)
	if err != nil {
		s.sleep(tickEvery)
	}
	if alone := s.heart.end(); alone && err != nil {
		s.heart.soon() // the end of an outage is when it commits
	}
}

// noteBeat tells the log when beats begin to fail, and when they are back.
func (s *Store) noteBeat(err error) {
	h := &s.heart
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case s.ctx.Err() != nil:
	case err != nil && h.failing.IsZero():
		h.failing = time.Now()
		s.log.Warn("no heartbeat", "cause", err)
	case err == nil && !h.failing.IsZero():
		s.log.Info("heartbeat again", "after", time.Since(h.failing).Round(time.Millisecond).String())
		h.failing = time.Time{}
	}
}

// beat commits one heartbeat. The keepalive alone would prove nothing: it
// succeeds while etcd is out of space.
func (s *Store) beat() error {
	lease, err := s.heartLease()
	if err != nil {
		return err
	}
	s.wg.Go(func() { s.keepHeartLease(lease) })
	t := &txn{}
	t.put(s.keys.replica(s.id), replicaRecord{header: current, At: now(), Embedded: s.cfg.Embedded}, lease)
	resp, err := s.commit(t)
	if leaseGone(err) {
		s.heart.drop(lease)
	}
	if err != nil {
		return err
	}
	s.clock.Committed()
	s.view.mu.Lock()
	defer s.view.mu.Unlock()
	s.view.applyReplica(s.id, true, resp.Header.Revision)
	return nil
}

// heartLease returns the lease that our key hangs on, granted where needed.
func (s *Store) heartLease() (int64, error) {
	h := &s.heart
	h.leaseMu.Lock()
	defer h.leaseMu.Unlock()
	if h.lease != 0 {
		return h.lease, nil
	}
	l, err := s.grant(replicaTTL)
	if err != nil {
		return 0, err
	}
	h.lease = l.id
	return l.id, nil
}

// keepHeartLease goes beside the put, so that a beat is one round trip long.
func (s *Store) keepHeartLease(lease int64) {
	ctx, cancel := s.bounded()
	defer cancel()
	if _, err := s.cli.KeepAliveOnce(ctx, clientv3.LeaseID(lease)); leaseGone(err) {
		s.heart.drop(lease)
		s.heart.soon()
	}
}

// drop has the next beat put our key on another lease.
func (h *heartbeat) drop(lease int64) {
	h.leaseMu.Lock()
	defer h.leaseMu.Unlock()
	if h.lease == lease {
		h.lease = 0
	}
}

func (h *heartbeat) current() int64 {
	h.leaseMu.Lock()
	defer h.leaseMu.Unlock()
	return h.lease
}

// buryPredecessors takes out the replicas that ran inside this etcd before. For
// the 3 s of their leases, which begin anew with etcd's start, their waiters
// would else count as present, and be handed what nobody is there to answer.
func (s *Store) buryPredecessors(ctx context.Context) error {
	if !s.cfg.Embedded {
		return nil
	}
	resp, err := s.cli.Get(ctx, s.keys.replicas(), clientv3.WithPrefix())
	if err != nil {
		return err
	}
	for _, kv := range resp.Kvs {
		rec, err := decode[replicaRecord](kv.Value)
		if err != nil || !rec.Embedded {
			continue
		}
		if _, err := s.cli.Delete(ctx, string(kv.Key)); err != nil {
			return err
		}
	}
	return nil
}

// retire takes this replica out, so that others need not wait for its lease.
func (s *Store) retire(ctx context.Context) error {
	if s.heart.current() == 0 {
		return nil
	}
	_, err := s.cli.Delete(ctx, s.keys.replica(s.id))
	if errors.Is(err, context.DeadlineExceeded) {
		return nil // its lease lapses by itself
	}
	return err
}

func (v *view) isActive() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.active > 0
}
