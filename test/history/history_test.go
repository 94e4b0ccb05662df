package history_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-lock/holdfast/test/harness"
)

const clients = 16

func TestHistoryIsLinearizable(t *testing.T) {
	seed := someSeed()
	t.Logf("seed %d", seed)
	harness.Program(t)
	replica := harness.Start(t, "--data-dir="+harness.Dir(t))
	r := &run{t: t, habits: quiet, urls: []string{replica.URL()}, began: time.Now()}
	r.over = func() bool { return r.count.Load() >= int64(*opsFlag) || t.Failed() }
	r.atWork(clients, seed)()
	r.check()
	checkRegister(t, r.writes, certain(r.ops))
	r.keepFailed()
}

// someSeed returns that of the flag, or a new one.
func someSeed() uint64 {
	if *seedFlag != 0 {
		return *seedFlag
	}
	return uint64(rand.Uint32()) // short enough to be typed
}

// atWork sets clients to work. wait returns when they have ended.
func (r *run) atWork(clients int, seed uint64) (wait func()) {
	var wg sync.WaitGroup
	for id := range clients {
		wg.Go(func() { r.newClient(id, seed).work() })
	}
	return wg.Wait
}

// check asks whether what the clients wrote down can be.
func (r *run) check() {
	r.t.Helper()
	began := time.Now()
	r.t.Logf("%d operations in %v: %s", len(r.ops), r.now().Round(time.Millisecond), outcomes(r.ops))
	checkFences(r.t, r.ops)
	checkExclusion(r.t, certain(r.ops))
	for _, err := range wrongEndings(r.ops) {
		r.t.Error(err)
	}
	byMutex := make([][]*op, r.habits.mutexes)
	for _, o := range r.ops {
		byMutex[o.mutex] = append(byMutex[o.mutex], o)
	}
	for m, history := range byMutex {
		for _, err := range strayTurns(history, r.troubles) {
			r.t.Errorf("m%d: %v", m, err)
		}
		for _, err := range vainWaits(history, r.troubles) {
			r.t.Errorf("m%d: %v", m, err)
		}
		checkOrder(r.t, m, history)
	}
	r.t.Logf("checked in %v", time.Since(began).Round(time.Millisecond))
}

// outcomes counts the answers.
func outcomes(history []*op) string {
	counts := map[string]int{}
	for _, o := range history {
		counts[fmt.Sprintf("%s %s", o.kind, o.answer)]++
	}
	var list []string
	for what, n := range counts {
		list = append(list, fmt.Sprintf("%s %d", what, n))
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// checkOrder fails the test unless the history of one mutex has an order. Of
// one that has none it shows the shortest beginning without one.
func checkOrder(t testing.TB, mutex int, history []*op) {
	t.Helper()
	for _, o := range history {
		if o.answer == impossible {
			t.Errorf("an answer that the contract does not have: %v", o)
			return
		}
	}
	result := inOrder(history)
	if result == porcupine.Ok {
		return
	}
	t.Errorf("m%d: %d operations: got %s, want an order in which they can have happened", mutex, len(history), result)
	if result == porcupine.Illegal {
		explain(t, history)
	}
}

// inOrder looks for an order. Most histories take less than a second.
func inOrder(history []*op) porcupine.CheckResult {
	const longest = time.Minute
	var list []porcupine.Operation
	for _, o := range history {
		switch o.answer {
		case unknown, passed, undone: // fit anywhere; what may follow from them is known
		default:
			list = append(list, porcupine.Operation{ClientId: o.client, Input: o, Call: int64(o.sent), Return: int64(o.got)})
		}
	}
	return porcupine.CheckOperationsTimeout(model(learn(history)), list, longest)
}

// explain looks for the shortest beginning of a history that has no order, and
// shows its end.
func explain(t testing.TB, history []*op) {
	t.Helper()
	byEnd := slices.SortedFunc(slices.Values(history), func(a, b *op) int { return cmp.Compare(a.got, b.got) })
	n, _ := slices.BinarySearchFunc(byEnd, porcupine.Illegal, func(o *op, _ porcupine.CheckResult) int {
		if inOrder(until(history, o.got)) == porcupine.Illegal {
			return 1
		}
		return -1
	})
	if n == len(byEnd) {
		return
	}
	last := byEnd[n]
	t.Logf("there is none after %d operations, with %v", n+1, last)
	const shown = 40
	for _, o := range byEnd[max(0, n-shown) : n+1] {
		t.Logf("%v", o)
	}
}

// until returns what was known of a history at a time: what had not been
// answered by then may have happened or not.
func until(history []*op, at time.Duration) []*op {
	var list []*op
	for _, o := range history {
		switch {
		case o.sent > at:
		case o.got > at:
			pending := *o
			pending.answer, pending.got, pending.seen, pending.whose = unknown, never, nothing, 0
			list = append(list, &pending)
		default:
			list = append(list, o)
		}
	}
	return list
}
