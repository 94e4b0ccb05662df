package etcdstore

import (
	"context"
	"errors"
	"sync"
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
	lease  int64 // 0 = none; of whoever beats: the loop, or the one who starts it
	waking singleflight.Group

	mu     sync.Mutex
	beats  bool      // the loop is on; guarded by mu
	needed time.Time // when somebody last needed it; guarded by mu
}

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
	h.beats, h.lease = false, 0
	return true
}

// beatOn is the loop; it ends when the service has been idle for a while.
func (s *Store) beatOn() {
	for s.sleep(beatEvery) {
		if s.heart.isOff(s.view.isActive()) {
			return
		}
		for s.ctx.Err() == nil {
			at := time.Now()
			err := s.beat()
			if err == nil {
				break
			}
			s.log.Warn("no heartbeat", "cause", err)
			// Soon again: the end of an outage is when it commits.
			s.sleep(max(0, tickEvery-time.Since(at)))
		}
	}
}

// beat commits one heartbeat. The keepalive alone would prove nothing: it
// succeeds while etcd is out of space.
func (s *Store) beat() error {
	h := &s.heart
	ctx, cancel := context.WithTimeout(s.ctx, beatTimeout)
	defer cancel()
	if h.lease != 0 {
		if _, err := s.cli.KeepAliveOnce(ctx, clientv3.LeaseID(h.lease)); leaseGone(err) {
			h.lease = 0
		}
	}
	if h.lease == 0 {
		resp, err := s.cli.Grant(ctx, int64(replicaTTL/time.Second))
		if err != nil {
			return err
		}
		h.lease = int64(resp.ID)
	}
	resp, err := s.cli.Put(ctx, s.keys.replica(s.id), encode(replicaRecord{header: current, At: now(), Embedded: s.cfg.Embedded}), clientv3.WithLease(clientv3.LeaseID(h.lease)))
	if leaseGone(err) {
		h.lease = 0
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
	if s.heart.lease == 0 {
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
