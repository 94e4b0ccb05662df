package etcdstore

import (
	"sync"
	"time"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// view is what this replica knows of everything under the prefix, from its one
// watch and from its own transactions. Decisions start from it and are proved
// by the comparisons of a transaction; nothing is refused on its word alone.
//
// Every key carries the revision that it was last changed at, so that a change
// may arrive twice and in either order: from our own transaction, and from the
// watch.
type view struct {
	me    string // this replica's id
	clock *windowClock

	mu       sync.Mutex
	rev      int64                     // everything up to here has been seen; guarded by mu
	watching bool                      // what is taken in is what the watch brought; guarded by mu
	heard    time.Time                 // when the watch last proved that it is live; guarded by mu
	mutexes  map[service.Name]*mutex   // guarded by mu
	replicas map[string]sign           // guarded by mu
	polls    map[string]*poll          // our own requests that still matter; guarded by mu
	gone     [2]map[service.Name]int64 // revisions of mutexes forgotten lately; guarded by mu
	floor    int64                     // no forgotten mutex changed after this; guarded by mu
	due      dueHeap                   // guarded by mu
	leases   map[int64]int             // owners' keys on each lease; guarded by mu
	active   int                       // mutexes with an owner or a line; guarded by mu
	ahead    map[*mutex]struct{}       // known beyond rev, from our own transactions and reads; guarded by mu

	// Set before the view is used; called with mu held, and never block.
	tend       func(*mutex)
	dueSoon    func()
	buried     func() // our own sign is gone
	roused     func() // something is owned or waited for again
	unreadable func(error)
}

// mutex is one mutex in the view; its fields are guarded by view.mu.
type mutex struct {
	name     service.Name
	owner    *owner
	ownerRev int64 // of the owner's key, deletion included
	line     []*entry
	entries  map[service.Pair]*entry
	tombs    map[service.Pair]int64 // entries that we deleted, until the watch says so too
	complete int64                  // the line is known up to here, if that is beyond view.rev
	maxRev   int64

	declared    *declaredRecord
	declaredRev int64
	history     historyRecord
	historyRev  int64

	polls    map[service.Pair][]*poll // live ones, to be woken
	changed  chan struct{}            // closed at the next change
	readers  int                      // that listen for it
	subs     map[*subscriber]struct{}
	told     ownerSeen // for events: the ownership as of the watch alone
	dueAt    time.Duration
	inDue    bool
	strayAt  time.Duration  // window time at which we may promote another replica's waiter; 0 = none
	suspects []service.Pair // entries to be looked at: nobody may be behind them
	tending  bool
}

// owner is an ownership at one revision of its key. Only hold changes once it
// is in the view.
type owner struct {
	rec    ownerRecord
	rev    int64
	lease  int64
	fence  service.Fence
	born   time.Duration // window time at which the ownership began, as far as this replica knows
	ttlEnd time.Duration // window time
	end    time.Duration // window time; W is over
	hold   *hold
}

// hold is shared by all revisions of one ownership; guarded by view.mu.
type hold struct {
	guards int           // that arrived in time and are still in flight
	since  time.Duration // window time since when there is always one
	rev    int64         // of the ownership, then
	failed bool          // one of them came to nothing for etcd's sake
	turn   chan struct{} // closed when the one that is being committed is over; nil = none is
}

// held returns the age of the ownership at window time t.
func (o *owner) held(t time.Duration) time.Duration {
	return max(0, t-o.born)
}

// entry is a place in line at one revision; immutable.
type entry struct {
	pair   service.Pair
	rec    entryRecord
	rev    int64
	joined int64
}

func newView(me string, clock *windowClock) *view {
	return &view{
		me: me, clock: clock,
		mutexes:  map[service.Name]*mutex{},
		replicas: map[string]sign{},
		polls:    map[string]*poll{},
		gone:     [2]map[service.Name]int64{{}, {}},
		leases:   map[int64]int{},
		ahead:    map[*mutex]struct{}{},
	}
}

// silence is how long the watch may say nothing, although its progress is
// asked for every second, before the view counts as behind. A black-holed
// watch shows neither events nor an error for more than 30 s.
const silence = 2 * time.Second

// current reports whether the view is not behind.
func (v *view) current() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.isCurrent()
}

func (v *view) isCurrent() bool { return !v.heard.IsZero() && time.Since(v.heard) < silence }

// at returns the mutex, bringing it into being. mu is held.
func (v *view) at(name service.Name) *mutex {
	if m := v.mutexes[name]; m != nil {
		return m
	}
	m := &mutex{name: name, maxRev: v.lastOf(name)}
	v.mutexes[name] = m
	return m
}

// lastOf returns the last revision of a mutex that is not in the view. mu is held.
func (v *view) lastOf(name service.Name) int64 {
	for _, g := range v.gone {
		if rev, ok := g[name]; ok {
			return rev
		}
	}
	return v.floor
}

// sweep forgets m if nothing is left of it. What is ahead of the watch stays
// until that has come: forgotten then, it would take with it what had its name
// since. mu is held.
func (v *view) sweep(m *mutex) {
	if m.owner != nil || len(m.line) > 0 || m.declared != nil || m.historyRev > 0 ||
		len(m.tombs) > 0 || len(m.polls) > 0 || len(m.subs) > 0 || m.readers > 0 ||
		m.tending || m.maxRev > v.rev {
		return
	}
	delete(v.mutexes, m.name)
	if m.maxRev > v.floor {
		v.gone[0][m.name] = m.maxRev
	}
}

// advance says that everything up to rev has been seen. mu is held.
func (v *view) advance(rev int64) {
	v.rev = max(v.rev, rev)
	for m := range v.ahead {
		for pair, tomb := range m.tombs {
			if tomb <= v.rev {
				delete(m.tombs, pair)
			}
		}
		if m.maxRev <= v.rev {
			delete(v.ahead, m)
			v.sweep(m)
		}
	}
}

// rotate forgets the older half of the forgotten. Called every minute, so that
// a mutex's revision is exact for a minute after its last change.
func (v *view) rotate() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, rev := range v.gone[1] {
		v.floor = max(v.floor, rev)
	}
	v.gone[1], v.gone[0] = v.gone[0], map[service.Name]int64{}
	v.buryReplicas()
}

// sight is what a decision starts from: one mutex at one moment.
type sight struct {
	rev     int64 // the line has nothing newer that is not in this sight
	current bool
	owner   *owner
	head    *entry   // the first present
	ahead   []*entry // those before the head who are not present
	dead    []string // replicas that must be dead for that
	mine    *entry
	waiters int      // present
	absent  []string // replicas that must be dead for there not to be more

	declared    *declaredRecord
	declaredRev int64
	history     historyRecord
	historyRev  int64
}

// look returns a mutex as a party sees it. Count says whether to count the
// line, which walks it.
func (v *view) look(name service.Name, pair service.Pair, count bool) sight {
	v.mu.Lock()
	defer v.mu.Unlock()
	m := v.mutexes[name]
	if m == nil {
		return sight{rev: v.rev, current: v.isCurrent()}
	}
	return v.sightOf(m, pair, count)
}

func (v *view) sightOf(m *mutex, pair service.Pair, count bool) sight {
	s := sight{
		rev: max(v.rev, m.complete), current: v.isCurrent(),
		owner: m.owner, mine: m.entries[pair],
		declared: m.declared, declaredRev: m.declaredRev,
		history: m.history, historyRev: m.historyRev,
	}
	s.head, s.ahead, s.dead = v.headOf(m, pair)
	if count {
		s.waiters, s.absent = v.crowd(m)
	}
	return s
}

// settings returns what is declared, as the domain has it.
func (s *sight) settings() *service.Settings {
	if s.declared == nil {
		return nil
	}
	d := s.declared.settings()
	return &d
}
