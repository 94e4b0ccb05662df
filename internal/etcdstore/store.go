package etcdstore

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// Config is what a Store depends on.
type Config struct {
	Client  *clientv3.Client
	Prefix  string        // ends with a slash
	Timeout time.Duration // of one etcd call; unanswered for so long its outcome is unknown
	Policy  service.Policy
	Log     *slog.Logger
	// Embedded says that the etcd is inside this process, so that a replica
	// which said the same before is dead for certain.
	Embedded bool
}

// Store is a service.Store on etcd: one replica of however many.
type Store struct {
	cfg   Config
	cli   *clientv3.Client
	keys  keys
	log   *slog.Logger
	id    string // this replica; a new one at every start
	clock *windowClock
	view  *view
	heart heartbeat

	linePool    pool
	awayPool    pool
	settledPool pool
	poolsMu     sync.Mutex
	ownerPools  map[time.Duration]*pool // by TTL; guarded by poolsMu
	lost        lostLeases
	together    together

	ctx     context.Context // ends with the store
	stop    context.CancelFunc
	wg      sync.WaitGroup
	cluster uint64 // etcd's id of itself; of the watch
	failed  chan error
	tending chan struct{} // bounds the transactions of tend
	dueKick chan struct{}
}

// tendAtOnce bounds how many mutexes are tended to at the same moment: when a
// replica with many owners dies, all of them end within a breath.
const tendAtOnce = 64

// New returns a store that does nothing yet.
func New(cfg Config) *Store {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Store{
		cfg: cfg, cli: cfg.Client, keys: keys{prefix: cfg.Prefix}, log: cfg.Log,
		id: rand.Text()[:16], clock: newWindowClock(),
		ctx: ctx, stop: cancel,
		linePool:    pool{ttl: lineTTL},
		awayPool:    pool{ttl: awayTTL, use: awayUse},
		settledPool: pool{ttl: settledTTL, use: settledUse},
		ownerPools:  map[time.Duration]*pool{},
		tending:     make(chan struct{}, tendAtOnce),
		dueKick:     make(chan struct{}, 1),
		failed:      make(chan error, 1),
		heart:       heartbeat{kick: make(chan struct{}, 1)},
	}
	s.view = newView(s.id, s.clock)
	s.view.tend, s.view.dueSoon = s.tend, s.kickDue
	s.view.buried, s.view.roused = s.heart.soon, s.rouse
	s.view.unreadable = func(err error) { s.log.Error("a stored value cannot be read", "cause", err) }
	return s
}

// Start reads everything and opens the watch. It returns when the store is
// ready, or with why it cannot be within ctx. Stop must be called either way.
// An etcd that refuses what it is told (out of space, corrupt) can be read, so
// that is no reason not to start.
func (s *Store) Start(ctx context.Context) error {
	if err := s.buryPredecessors(ctx); err != nil {
		return fmt.Errorf("etcd does not answer: %w", err)
	}
	ready := make(chan struct{})
	s.wg.Go(s.tick)
	s.wg.Go(func() { s.watch(ready) })
	s.wg.Go(s.keepLeases)
	s.wg.Go(s.endDue)
	s.wg.Go(s.housekeep)
	if len(s.cli.Endpoints()) > 1 {
		s.wg.Go(s.avoidSilent)
	}
	select {
	case <-ready:
	case <-ctx.Done():
		return fmt.Errorf("etcd does not answer: %w", context.Cause(ctx))
	}
	if s.view.isActive() && s.awake() != nil {
		s.rouse()
	}
	return nil
}

// Failed yields an error when the store cannot go on: what it knows is of
// another etcd than the one that answers now. It has to be stopped still.
func (s *Store) Failed() <-chan error { return s.failed }

// Stop ends all that the store does. Requests must have ended before.
func (s *Store) Stop(ctx context.Context) error {
	s.stop()
	done := make(chan struct{})
	go func() { s.wg.Wait(); close(done) }()
	select {
	case <-done:
		return s.retire(ctx)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// tick proves to the window clock that the process runs.
func (s *Store) tick() {
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()
	for {
		s.clock.Tick()
		select {
		case <-ticker.C:
		case <-s.ctx.Done():
			return
		}
	}
}

// housekeep forgets what is long over.
func (s *Store) housekeep() {
	for s.sleep(jitter(time.Minute)) {
		s.view.rotate()
		s.view.bury()
	}
}

// sleep waits for d; false means that the store has stopped.
func (s *Store) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.ctx.Done():
		return false
	}
}

// breathe pauses before a decision is made again, once that has been often: what
// was read contradicts what is seen, and time may mend that.
func (s *Store) breathe(tries int) {
	const often, longest = 10, 100
	if tries > often {
		s.sleep(time.Millisecond * time.Duration(min(tries-often, longest)))
	}
}

// jitter spreads d by a tenth either way, so that replicas do not march in step.
func jitter(d time.Duration) time.Duration {
	return d - d/10 + mathrand.N(d/5)
}
