package servicetest

import (
	"crypto/rand"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// Open returns a store for a test, and sees to it that it is closed when the
// test has ended (t.Cleanup). Several stores may be open at once.
type Open func(t *testing.T, policy service.Policy) service.Store

// Option changes how TestStore runs.
type Option func(*suite)

// InBubbles runs every clause in a synctest bubble of its own, with a store
// that is opened in it: for stores that use no network.
func InBubbles() Option {
	return func(s *suite) { s.bubbles, s.late = true, 100*time.Millisecond }
}

// InParallel runs the clauses side by side, on one store.
func InParallel() Option { return func(s *suite) { s.parallel = true } }

// Late says how late a store may be with what is due. The default is the 100 ms
// of promise P4 in bubbles, and a second on machines that do other things too.
func Late(d time.Duration) Option { return func(s *suite) { s.late = d } }

// clause is one sentence of the specification.
type clause struct {
	name string
	run  func(s *scene)
}

// TestStore holds a store against the comments of service.Store, a subtest for
// each sentence. Those that begin with a number test that promise, as far as
// one store can show it. In real time it takes less than a minute.
func TestStore(t *testing.T, open Open, opts ...Option) {
	s := &suite{open: open, late: time.Second}
	for _, opt := range opts {
		opt(s)
	}
	s.allowing = sync.OnceValue(func() service.Store { return open(t, policy(false)) })
	s.denying = sync.OnceValue(func() service.Store { return open(t, policy(true)) })
	for _, c := range slices.Concat(
		acquireClauses, waitClauses, placeClauses, windowClauses, maxHoldClauses, fenceClauses, guardClauses,
		releaseClauses, lostClauses, repeatClauses, breakClauses, declareClauses, readClauses, eventClauses, listClauses,
	) {
		t.Run(c.name, func(t *testing.T) { s.run(t, c) })
	}
}

// suite is a store under test and how to test it.
type suite struct {
	open              Open
	late              time.Duration
	bubbles, parallel bool
	allowing, denying func() service.Store
}

func (s *suite) run(t *testing.T, c clause) {
	if s.bubbles {
		synctest.Test(t, func(t *testing.T) { c.run(s.scene(t, c)) })
		return
	}
	if s.parallel {
		t.Parallel()
	}
	c.run(s.scene(t, c))
}

func (s *suite) scene(t *testing.T, c clause) *scene {
	sc := &scene{t: t, late: s.late, bubble: s.bubbles, prefix: slug(c.name) + "-" + rand.Text()[:8] + "-"}
	sc.open = func(deny bool) service.Store {
		switch {
		case s.bubbles: // nothing may cross the border of a bubble
			return s.open(t, policy(deny))
		case deny:
			return s.denying()
		default:
			return s.allowing()
		}
	}
	sc.store = sc.open(false)
	return sc
}

// policy has the defaults of the service, so that a mutex without settings of its own
// has windows that no clause lives to see the end of.
func policy(deny bool) service.Policy {
	return service.Policy{DefaultTTL: 10 * time.Second, DefaultTransition: 6 * time.Second, DenyUndeclared: deny}
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

func slug(s string) string {
	return strings.Trim(notInNames.ReplaceAllString(strings.ToLower(s), "-"), "-")
}
