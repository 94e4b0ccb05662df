package servicetest

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-lock/holdfast/internal/service"
)

const (
	// placeKept is how long a place outlives its poll. Source: promise P7.
	placeKept = 10 * time.Second
	// settledKept is how long the end of an ownership or wait is remembered.
	// Source: promise P8.
	settledKept = 2 * time.Minute
	// historyKept is how many ownerships of a declared mutex are remembered.
	historyKept = 10
)

// Memory is the reference service.Store: everything in one process, behind one
// lock, so that it is easy to see that it is right. It starts no goroutine
// that outlives Close, and works inside a synctest bubble when it was made in
// it.
type Memory struct {
	policy service.Policy
	alarms sync.WaitGroup // timers that are set, or whose function runs

	mu        sync.Mutex
	closed    bool                    // guarded by mu
	revision  service.Revision        // guarded by mu; one more per change
	compacted service.Revision        // guarded by mu; events up to it are gone
	mutexes   map[service.Name]*mutex // guarded by mu
	changed   chan struct{}           // guarded by mu; closed and replaced by every change
}

var _ service.Store = (*Memory)(nil)

// NewMemory returns an empty store. Close it when the test ends.
func NewMemory(policy service.Policy) *Memory {
	return &Memory{
		policy:  policy,
		mutexes: map[service.Name]*mutex{},
		changed: make(chan struct{}),
	}
}

// Close ends every wait with KindUnavailable, as every later call, and returns
// when no timer is left. It may be called again.
func (m *Memory) Close() {
	m.mu.Lock()
	if !m.closed {
		m.closed = true
		for _, mx := range m.mutexes {
			m.abandon(mx)
		}
		m.wake()
	}
	m.mu.Unlock()
	m.alarms.Wait()
}

// abandon stops the timers of a mutex and ends its waits.
func (m *Memory) abandon(mx *mutex) {
	if mx.owner != nil {
		m.stopWindows(mx.owner)
	}
	for _, e := range mx.line {
		m.cancel(e.lapse)
		if e.poll != nil {
			e.poll.end(unavailable(mx.name))
		}
	}
}

// Ready returns nil until Close.
func (m *Memory) Ready(ctx context.Context) error {
	unlock, err := m.enter(ctx, "")
	if err != nil {
		return err
	}
	unlock()
	return nil
}

// enter takes the lock for a call, unless the call is over already.
func (m *Memory) enter(ctx context.Context, name service.Name) (unlock func(), err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil, unavailable(name)
	}
	return m.mu.Unlock, nil
}

func unavailable(name service.Name) *service.Error {
	return &service.Error{Kind: service.KindUnavailable, Mutex: name, RetryAfter: time.Second}
}

// mutex returns the mutex of that name, which comes into being here.
func (m *Memory) mutex(name service.Name) *mutex {
	mx := m.mutexes[name]
	if mx == nil {
		mx = &mutex{name: name, settled: map[service.Pair]settled{}}
		m.mutexes[name] = mx
	}
	return mx
}

// known returns the mutex of that name, or KindMutexNotDeclared where it has
// to be declared and is not.
func (m *Memory) known(name service.Name) (*mutex, error) {
	mx := m.mutex(name)
	_, err := m.policy.Resolve(name, mx.declaredSettings())
	return mx, err
}

// settings are those in force. They are the defaults also where undeclared
// names are denied: whoever owns such a mutex still keeps it.
func (m *Memory) settings(mx *mutex) service.Settings {
	allow := m.policy
	allow.DenyUndeclared = false
	s, _ := allow.Resolve(mx.name, mx.declaredSettings())
	return s
}

// change is one commit: everything in it has the same revision.
type change struct {
	mx *mutex
	id service.EventID
	at time.Time
}

// begin starts a change of mx, under the lock that makes it atomic.
func (m *Memory) begin(mx *mutex) *change {
	m.revision++
	mx.revision = m.revision
	m.wake()
	return &change{mx: mx, id: service.EventID{Revision: m.revision}, at: time.Now()}
}

// wake lets everybody who waits for a change look again.
func (m *Memory) wake() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// after calls f under the lock when d has passed, unless it is cancelled. A
// timer that has fired cannot be cancelled any more, so f MUST look whether
// what it is about is still there.
func (m *Memory) after(d time.Duration, f func()) *time.Timer {
	m.alarms.Add(1)
	return time.AfterFunc(d, func() {
		defer m.alarms.Done()
		m.mu.Lock()
		defer m.mu.Unlock()
		if !m.closed {
			f()
		}
	})
}

func (m *Memory) cancel(t *time.Timer) {
	if t != nil && t.Stop() {
		m.alarms.Done()
	}
}
