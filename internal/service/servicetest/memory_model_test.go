package servicetest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-lock/holdfast/internal/service"
	"github.com/holdfast-lock/holdfast/internal/service/servicetest"
)

// TestMemoryKeepsTheLine plays random stories of five contenders on one mutex,
// and compares the store with a model of the line after each step.
func TestMemoryKeepsTheLine(t *testing.T) {
	step := rapid.Custom(func(t *rapid.T) step {
		return step{
			do:  rapid.SampledFrom([]action{ask, ask, ask, hangUp, release, lose, tell, breakIt, pass}).Draw(t, "do"),
			who: rapid.IntRange(0, 4).Draw(t, "who"),
		}
	})
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(step, 1, 60).Draw(rt, "steps")
		var failure error // rt must not be used inside the bubble
		synctest.Test(t, func(t *testing.T) { failure = play(t, steps) })
		if failure != nil {
			rt.Fatal(failure)
		}
	})
}

type action string

const (
	ask     action = "asks"
	hangUp  action = "hangs up"
	release action = "releases"
	lose    action = "is not told"
	tell    action = "is told"
	breakIt action = "is broken"
	pass    action = "lets both windows pass"
)

type step struct {
	do  action
	who int
}

func (s step) String() string { return fmt.Sprintf("%d %s", s.who, s.do) }

// model is what the line should be. Entries of the line are contenders.
type model struct {
	owner   int // -1 = nobody
	told    bool
	queued  []bool // whether the owner, by contender, had a place
	line    []int
	joined  [5]int // order of joining
	joins   int
	present [5]bool
}

func newModel() *model { return &model{owner: -1, queued: make([]bool, 5)} }

func (m *model) ask(who int) {
	others := slices.ContainsFunc(m.line, func(w int) bool { return w != who && m.present[w] })
	inLine := slices.Contains(m.line, who)
	switch {
	case m.owner == who:
	case m.owner < 0 && !others:
		m.grant(who, inLine)
	default:
		if !inLine {
			m.joins++
			m.joined[who] = m.joins
			m.line = append(m.line, who)
		}
		m.present[who] = true
	}
}

func (m *model) grant(who int, queued bool) {
	m.leave(who)
	m.owner, m.told, m.queued[who] = who, false, queued
}

func (m *model) leave(who int) {
	m.line = slices.DeleteFunc(m.line, func(w int) bool { return w == who })
	m.present[who] = false
}

func (m *model) free() {
	m.owner = -1
	for _, w := range m.line {
		if m.present[w] {
			m.grant(w, true)
			return
		}
	}
}

func (m *model) lose(who int) {
	if m.owner != who || m.told {
		return
	}
	if m.queued[who] {
		m.line = append(m.line, who)
		slices.SortFunc(m.line, func(a, b int) int { return m.joined[a] - m.joined[b] })
	}
	m.free()
}

func (m *model) pass() {
	if m.owner >= 0 {
		m.owner = -1
	}
	m.line = slices.DeleteFunc(m.line, func(w int) bool { return !m.present[w] })
	m.free()
}

// cast is the store, and what each contender has under way.
type cast struct {
	store   *servicetest.Memory
	parties [5]service.Party
	tokens  int
	polls   [5]*ongoing
	fence   service.Fence
}

// ongoing is an acquire; its result is set when done is closed.
type ongoing struct {
	hangUp context.CancelCauseFunc
	done   chan struct{}
	grant  service.Grant
	err    error
}

var errHungUp = errors.New("hung up")

func (c *cast) renew(who int) {
	c.tokens++
	c.parties[who] = service.NewParty(name(who), service.Token(fmt.Sprintf("token-%010d", c.tokens)))
}

func name(who int) service.ContenderID { return service.ContenderID(fmt.Sprint(who)) }

func (c *cast) ask(ctx context.Context, who int) {
	ctx, hangUp := context.WithCancelCause(ctx)
	p := &ongoing{hangUp: hangUp, done: make(chan struct{})}
	req := service.AcquireRequest{Mutex: "deploy", Party: c.parties[who], Wait: 1000 * time.Hour}
	go func() {
		defer close(p.done)
		p.grant, p.err = c.store.Acquire(ctx, req)
	}()
	c.polls[who] = p
}

// play runs a story, and returns where it departs from the model.
func play(t *testing.T, steps []step) error {
	c := &cast{store: servicetest.NewMemory(service.Policy{DefaultTTL: 10 * time.Second, DefaultTransition: 6 * time.Second})}
	ctx, over := context.WithCancel(t.Context())
	defer c.store.Close()
	defer over()
	for who := range c.parties {
		c.renew(who)
	}
	m := newModel()
	for i, s := range steps {
		if err := c.perform(ctx, m, s); err != nil {
			return fmt.Errorf("step %d, %v: %w", i, s, err)
		}
		if err := c.compare(ctx, m); err != nil {
			return fmt.Errorf("after step %d, %v: %w", i, s, err)
		}
	}
	return nil
}

// perform takes one step, in the store and in the model.
func (c *cast) perform(ctx context.Context, m *model, s step) error {
	was := m.owner
	switch poll := c.polls[s.who]; s.do {
	case ask:
		waited := m.present[s.who]
		c.ask(ctx, s.who)
		synctest.Wait()
		m.ask(s.who)
		if waited && !errors.Is(poll.err, service.Of(service.KindSuperseded)) {
			return fmt.Errorf("got %v for the older poll, want superseded", poll.err)
		}
	case hangUp:
		if m.present[s.who] {
			poll.hangUp(errHungUp)
			synctest.Wait()
			if !errors.Is(poll.err, errHungUp) {
				return fmt.Errorf("got %v, want that it hung up", poll.err)
			}
			m.present[s.who] = false
		}
	case release:
		return c.release(ctx, m, s.who)
	case tell:
		if m.owner == s.who {
			poll.grant.Told()
			m.told = true
		}
	case lose:
		if poll != nil && poll.grant != nil {
			poll.grant.Lost()
			m.lose(s.who)
		}
	case breakIt:
		if m.owner == s.who {
			if _, err := c.store.Break(ctx, service.BreakRequest{Mutex: "deploy", Fence: poll.grant.Ownership().Fence}); err != nil {
				return err
			}
			m.free()
			return c.spent(ctx, was)
		}
	case pass:
		time.Sleep(16 * time.Second)
		synctest.Wait()
		m.pass()
		if was >= 0 {
			return c.spent(ctx, was)
		}
	}
	return nil
}

func (c *cast) release(ctx context.Context, m *model, who int) error {
	got, err := c.store.Release(ctx, service.ReleaseRequest{Mutex: "deploy", Party: c.parties[who]})
	switch {
	case m.owner == who:
		if err != nil || got != service.ReleasedNow {
			return fmt.Errorf("got %d, %v, want that it is released", got, err)
		}
		m.free()
		return c.spent(ctx, who)
	case slices.Contains(m.line, who):
		if err != nil || got != service.LeftLine {
			return fmt.Errorf("got %d, %v, want that it left", got, err)
		}
		m.leave(who)
	case err == nil && got != service.LeftLine: // it may have left before
		return fmt.Errorf("got %d, want a refusal", got)
	}
	return nil
}

// spent checks that the token of an ownership that ended is of no more use,
// and gives the contender another.
func (c *cast) spent(ctx context.Context, who int) error {
	_, err := c.store.Acquire(ctx, service.AcquireRequest{Mutex: "deploy", Party: c.parties[who]})
	if !errors.Is(err, service.Of(service.KindTokenSpent)) {
		return fmt.Errorf("got %v, want a spent token", err)
	}
	c.renew(who)
	c.polls[who] = nil
	return nil
}

// compare holds the store against the model, once everything has settled.
func (c *cast) compare(ctx context.Context, m *model) error {
	synctest.Wait()
	mx, err := c.store.Mutex(ctx, service.ReadRequest{Mutex: "deploy"})
	if err != nil {
		return err
	}
	owner := -1
	if mx.Owner != nil {
		_, _ = fmt.Sscan(string(mx.Owner.Contender), &owner)
	}
	line, err := c.store.Waiters(ctx, "deploy")
	if err != nil {
		return err
	}
	got := fmt.Sprint("owner ", owner, ", line")
	for _, w := range line {
		got += fmt.Sprint(" ", w.Contender, w.Present)
	}
	want := fmt.Sprint("owner ", m.owner, ", line")
	for _, w := range m.line {
		want += fmt.Sprint(" ", name(w), m.present[w])
	}
	if got != want {
		return fmt.Errorf("got %s, want %s", got, want)
	}
	return c.fencesGrow(mx)
}

func (c *cast) fencesGrow(mx service.Mutex) error {
	if mx.Owner == nil {
		return nil
	}
	who := 0
	_, _ = fmt.Sscan(string(mx.Owner.Contender), &who)
	select {
	case <-c.polls[who].done:
	default:
		return fmt.Errorf("the poll of %d goes on, though it owns", who)
	}
	if p := c.polls[who]; p.err != nil || p.grant.Ownership().Fence != mx.Owner.Fence {
		return fmt.Errorf("got %v for %d, want its grant", p.err, who)
	}
	if mx.Owner.Fence < c.fence {
		return fmt.Errorf("got fence %d, want at least %d", mx.Owner.Fence, c.fence)
	}
	c.fence = mx.Owner.Fence
	return nil
}
