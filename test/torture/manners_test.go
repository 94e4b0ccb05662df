package torture_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// manners are what a client may see while replicas and members are restarted
// in order: success, 423, a 503 that says when to come again, or no connection
// with a replica that is away. What had arrived before it left is answered.
type manners struct {
	mu       sync.Mutex
	away     map[int][]*absence // guarded by mu
	offences []string           // guarded by mu
	seen     map[string]int     // guarded by mu
}

// absence is a time in which a replica is away; to is zero while it is.
type absence struct{ from, to time.Time }

func newManners() *manners {
	return &manners{away: make(map[int][]*absence), seen: make(map[string]int)}
}

// leaves says that a replica is going away.
func (m *manners) leaves(replica int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.away[replica] = append(m.away[replica], &absence{from: time.Now()})
}

// returns says that it serves again.
func (m *manners) returns(replica int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.away[replica][len(m.away[replica])-1].to = time.Now()
}

// saw takes in what became of a call. Whatever a client saw is right for nil.
func (m *manners) saw(replica int, sent time.Time, r harness.Reply, err error) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen[kind(r, err)]++
	if why := m.offence(replica, sent, r, err); why != "" && len(m.offences) < 20 {
		m.offences = append(m.offences, fmt.Sprintf("replica %d, sent %s, after %v: %s",
			replica, sent.Format("05.000"), ms(time.Since(sent)), why))
	}
}

func kind(r harness.Reply, err error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "time-out"
	case err != nil:
		return "no connection"
	case r.Status == 503:
		return "503 " + r.Code()
	default:
		return fmt.Sprint(r.Status)
	}
}

// offence says what is wrong with it. mu is held.
func (m *manners) offence(replica int, sent time.Time, r harness.Reply, err error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "it hangs"
	case err != nil && !m.wasAway(replica, sent):
		return "it is there, and yet: " + err.Error()
	case err != nil && m.hadArrived(replica, sent):
		return "it was cut off: " + err.Error()
	case err != nil || r.Status == 200 || r.Status == 423:
		return ""
	case r.Status == 503 && r.Header.Get("Content-Type") == "application/problem+json" && r.Header.Get("Retry-After") != "":
		return ""
	}
	return fmt.Sprintf("%d %v %s", r.Status, r.Header, r.Raw)
}

// wasAway reports whether a replica was, between then and now. mu is held.
func (m *manners) wasAway(replica int, since time.Time) bool {
	for _, a := range m.away[replica] {
		if a.to.IsZero() || a.to.After(since) {
			return true
		}
	}
	return false
}

// underway is when a request has certainly arrived that was sent that long ago.
const underway = time.Second

// hadArrived reports whether a request was with a replica before that left:
// it has to be answered. mu is held.
func (m *manners) hadArrived(replica int, sent time.Time) bool {
	arrived := sent.Add(underway)
	for _, a := range m.away[replica] {
		if a.from.Before(arrived) && (a.to.IsZero() || a.to.After(sent)) {
			return false
		}
	}
	return arrived.Before(time.Now())
}

// wereGood fails the test when they were not.
func (m *manners) wereGood(t *testing.T) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	t.Logf("clients saw %v", m.seen)
	for _, o := range m.offences {
		t.Error(o)
	}
}
