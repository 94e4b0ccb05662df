package servicetest

import (
	"maps"
	"slices"
	"time"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// mutex is everything of one name. All of it is guarded by Memory.mu.
type mutex struct {
	name     service.Name
	revision service.Revision // of the last change; 0 = never used
	declared *declaration
	owner    *owner
	line     []*entry // by joined, those away too
	settled  map[service.Pair]settled
	past     []service.PastOwnership // of a declared mutex, the newest first
	log      eventLog
}

// declaration is what is stored for a declared mutex.
type declaration struct {
	settings service.Settings
	revision service.Revision
}

// entry is a party in line, or on its way to an ownership.
type entry struct {
	party    service.Party
	asked    service.Asked
	metadata map[string]string
	joined   service.Revision // of its first joining; 0 = it never was in line
	joinedAt time.Time
	poll     *poll       // the request that stands for it; nil = away
	lapse    *time.Timer // of one that is away
}

// poll is one acquire request.
type poll struct {
	decided chan struct{} // closed when the wait has an outcome
	err     error         // the outcome; nil = the mutex is owned
}

func newPoll() *poll { return &poll{decided: make(chan struct{})} }

// end decides a poll. What was granted may still be lost again before its
// request has looked, so a later outcome replaces an earlier one.
func (p *poll) end(err error) {
	p.err = err
	select {
	case <-p.decided:
	default:
		close(p.decided)
	}
}

// settled is how an ownership or a wait of one token ended.
type settled struct {
	past      service.PastOwnership // Ended is EndedLeft for a wait
	operation string
	maxHold   bool // it had reached max_hold
}

// outcome is what a repeated release says.
func (s settled) outcome() (service.Released, bool) {
	switch s.past.Ended {
	case service.EndedReleased:
		return service.ReleasedBefore, true
	case service.EndedLeft:
		return service.LeftLine, true
	default:
		return 0, false
	}
}

func (mx *mutex) declaredSettings() *service.Settings {
	if mx.declared == nil {
		return nil
	}
	return &mx.declared.settings
}

func (mx *mutex) isDeclared() bool { return mx.declared != nil }

func (mx *mutex) ownedBy(pair service.Pair) bool {
	return mx.owner != nil && mx.owner.party.Pair == pair
}

// outcomeOf returns what is remembered of a token.
func (mx *mutex) outcomeOf(pair service.Pair) (settled, bool) {
	s, ok := mx.settled[pair]
	return s, ok && time.Since(s.past.EndedAt) < settledKept
}

// settle remembers an outcome, and forgets those that are too old.
func (mx *mutex) settle(pair service.Pair, s settled) {
	maps.DeleteFunc(mx.settled, func(_ service.Pair, old settled) bool {
		return time.Since(old.past.EndedAt) >= settledKept
	})
	mx.settled[pair] = s
}

// waiting returns the entry of a party, or nil.
func (mx *mutex) waiting(pair service.Pair) *entry {
	for _, e := range mx.line {
		if e.party.Pair == pair {
			return e
		}
	}
	return nil
}

// head returns the first waiter present, or nil.
func (mx *mutex) head() *entry {
	for _, e := range mx.line {
		if e.poll != nil {
			return e
		}
	}
	return nil
}

// ahead counts the waiters present before the place of a party, or all of
// them when it has none.
func (mx *mutex) ahead(pair service.Pair) int {
	n := 0
	for _, e := range mx.line {
		if e.party.Pair == pair {
			return n
		}
		if e.poll != nil {
			n++
		}
	}
	return n
}

func (mx *mutex) present() int { return mx.ahead("") }

// insert puts an entry where its joined says.
func (mx *mutex) insert(e *entry) {
	i, _ := slices.BinarySearchFunc(mx.line, e, func(a, b *entry) int { return int(a.joined - b.joined) })
	mx.line = slices.Insert(mx.line, i, e)
}

// remove takes an entry out of the line.
func (m *Memory) remove(mx *mutex, e *entry) {
	m.cancel(e.lapse)
	e.lapse = nil
	mx.line = slices.DeleteFunc(mx.line, func(other *entry) bool { return other == e })
}

// refusal is an error of kind that says who holds the mutex.
func (mx *mutex) refusal(kind service.Kind) *service.Error {
	e := &service.Error{Kind: kind, Mutex: mx.name}
	if mx.owner != nil {
		holder := mx.owner.view()
		e.Holder = &holder
	}
	return e
}

// ended is a refusal that says what became of a token's ownership.
func (mx *mutex) ended(kind service.Kind, pair service.Pair) *service.Error {
	e := mx.refusal(kind)
	e.Ended = service.EndedUnknown
	if s, ok := mx.outcomeOf(pair); ok && s.past.Ended != service.EndedLeft {
		e.Ended, e.Fence = s.past.Ended, s.past.Fence
	}
	return e
}
