package httpapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-lock/holdfast/internal/httpapi/apigen"
	"github.com/holdfast-lock/holdfast/internal/service"
)

// inBubble runs a test whose clock jumps when everybody waits.
func inBubble(t *testing.T, policy service.Policy, f func(t *testing.T, h *house)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, policy)
		f(t, h)
	})
}

// later sends a request that waits, and returns when it does.
func (h *house) later(ctx context.Context, method, target, body string) <-chan *answer {
	h.t.Helper()
	done := make(chan *answer, 1)
	go func() { done <- h.doCtx(ctx, method, target, body) }()
	synctest.Wait()
	return done
}

func TestAcquireAnswer(t *testing.T) {
	inBubble(t, defaultPolicy, func(t *testing.T, h *house) {
		now := time.Now()
		got := decode[apigen.Ownership](h.post("/v1/mutexes/deploy/acquire",
			`{"contender_id":"alice","token":"`+tokenA+`"}`).want(http.StatusOK))
		want := apigen.Ownership{
			Mutex: "deploy", ContenderId: "alice", Token: tokenA, FencingToken: got.FencingToken,
			AcquiredAt:   now.UTC().Format("2006-01-02T15:04:05.000Z"),
			TtlAt:        now.Add(10 * time.Second).UTC().Format("2006-01-02T15:04:05.000Z"),
			TransitionAt: now.Add(16 * time.Second).UTC().Format("2006-01-02T15:04:05.000Z"),
			TtlMs:        10_000, TransitionMs: 6_000,
			TtlRemainingMs: 10_000, TransitionRemainingMs: 16_000,
			GuardAfterMs: 3_333,
		}
		if got != want {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	})
}

func TestAcquireNeedsNothing(t *testing.T) {
	h := newHouse(t, defaultPolicy)
	for name, send := range map[string]func(target string) *answer{
		"empty": func(target string) *answer { return h.post(target, "") },
		"space": func(target string) *answer { return h.post(target, " \n") },
		"{}":    func(target string) *answer { return h.post(target, "{}") },
		"curl -d": func(target string) *answer {
			return h.do("POST", target, `{"ttl_ms":1000}`, "Content-Type", "application/x-www-form-urlencoded")
		},
		"no type": func(target string) *answer { return h.do("POST", target, `{"ttl_ms":1e3,"transition_ms":0.0}`) },
		"text":    func(target string) *answer { return h.do("POST", target, `{}`, "Content-Type", "text/plain") },
	} {
		got := decode[apigen.Ownership](send("/v1/mutexes/" + strings.NewReplacer(" ", "", "{}", "o").Replace(name) + "/acquire").want(http.StatusOK))
		if got.ContenderId != string(service.Anonymous(service.Token(got.Token))) {
			t.Errorf("%s: got contender %q", name, got.ContenderId)
		}
	}
}

func TestAcquireAgainIsTheSameOwnership(t *testing.T) {
	inBubble(t, defaultPolicy, func(t *testing.T, h *house) {
		body := `{"contender_id":"alice","token":"` + tokenA + `"}`
		first := decode[apigen.Ownership](h.post("/v1/mutexes/deploy/acquire", body).want(http.StatusOK))
		time.Sleep(4 * time.Second)
		again := decode[apigen.Ownership](h.post("/v1/mutexes/deploy/acquire", body).want(http.StatusOK))
		if again.FencingToken != first.FencingToken || again.TtlRemainingMs != 10_000 || again.AcquiredAt != first.AcquiredAt {
			t.Errorf("got %+v, after %+v", again, first)
		}
	})
}

func TestLockedWithoutAWait(t *testing.T) {
	inBubble(t, defaultPolicy, func(t *testing.T, h *house) {
		h.post("/v1/mutexes/deploy/acquire", `{"contender_id":"alice","token":"`+tokenA+`","metadata":{"job":"x"}}`).want(http.StatusOK)
		time.Sleep(2500 * time.Millisecond)
		a := h.post("/v1/mutexes/deploy/acquire", "").want(http.StatusLocked, apigen.ProblemCodeMutexLocked)
		p := a.problem()
		if p.Holder == nil || p.Holder.ContenderId != "alice" || p.Holder.HeldMs != 2500 ||
			p.Holder.TtlRemainingMs != 7500 || p.Holder.TransitionRemainingMs != 13_500 || p.Holder.Metadata["job"] != "x" {
			t.Errorf("got holder %+v", p.Holder)
		}
		if p.Place != nil || value(p.WaitedMs) != 0 || p.WaitedMs == nil || value(p.Waiters) != 0 || p.Waiters == nil {
			t.Errorf("got place %v, waited %v, waiters %v", p.Place, p.WaitedMs, p.Waiters)
		}
		if got := a.header.Get("Retry-After"); got != "14" || value(p.RetryAfterMs) != 13_500 {
			t.Errorf("got Retry-After %s, %v ms", got, value(p.RetryAfterMs))
		}
		if strings.Contains(a.text, tokenA) {
			t.Errorf("the owner's token is told: %s", a.text)
		}
		if *p.ContenderId != string(service.Anonymous(service.Token(*p.Token))) {
			t.Errorf("got token %q of contender %q", *p.Token, *p.ContenderId)
		}
	})
}

func TestLockedAfterAWait(t *testing.T) {
	inBubble(t, defaultPolicy, func(t *testing.T, h *house) {
		h.post("/v1/mutexes/deploy/acquire", `{"token":"`+tokenA+`","ttl_ms":80000}`).want(http.StatusOK)
		other := h.later(t.Context(), "POST", "/v1/mutexes/deploy/acquire", `{"token":"token-of-carol-001","wait_ms":60000}`)
		start := time.Now()
		a := h.post("/v1/mutexes/deploy/acquire", `{"token":"`+tokenB+`","wait_ms":9007199254740991}`).want(http.StatusLocked)
		if waited := time.Since(start); waited != maxWait {
			t.Errorf("waited %s, want %s", waited, maxWait)
		}
		p := a.problem()
		if value(p.Place) != 1 && value(p.Place) != 2 || value(p.WaitedMs) != maxWait.Milliseconds() {
			t.Errorf("got place %v, waited %v", value(p.Place), value(p.WaitedMs))
		}
		if a.header.Get("Retry-After") != "0" || p.Token != nil || p.ContenderId != nil {
			t.Errorf("got Retry-After %q, token %v, contender %v", a.header.Get("Retry-After"), p.Token, p.ContenderId)
		}
		(<-other).want(http.StatusLocked)
	})
}

func TestWaitEndsWithTheRelease(t *testing.T) {
	inBubble(t, defaultPolicy, func(t *testing.T, h *house) {
		h.post("/v1/mutexes/deploy/acquire", `{"token":"`+tokenA+`"}`).want(http.StatusOK)
		bob := h.later(t.Context(), "POST", "/v1/mutexes/deploy/acquire", `{"contender_id":"bob","token":"`+tokenB+`","wait_ms":30000}`)
		line := decode[apigen.WaiterList](h.get("/v1/mutexes/deploy/waiters").want(http.StatusOK))
		if len(line.Waiters) != 1 || line.Waiters[0].ContenderId != "bob" || value(line.Waiters[0].Place) != 1 || !line.Waiters[0].Present {
			t.Errorf("got line %+v", line)
		}
		h.post("/v1/mutexes/deploy/release", `{"token":"`+tokenA+`"}`).want(http.StatusOK)
		if got := decode[apigen.Ownership]((<-bob).want(http.StatusOK)); got.ContenderId != "bob" {
			t.Errorf("got %+v", got)
		}
	})
}

func TestNewerPollSupersedes(t *testing.T) {
	inBubble(t, defaultPolicy, func(t *testing.T, h *house) {
		h.post("/v1/mutexes/deploy/acquire", `{"token":"`+tokenA+`"}`).want(http.StatusOK)
		body := `{"token":"` + tokenB + `","wait_ms":30000}`
		older := h.later(t.Context(), "POST", "/v1/mutexes/deploy/acquire", body)
		newer := h.later(t.Context(), "POST", "/v1/mutexes/deploy/acquire", body)
		(<-older).want(http.StatusConflict, apigen.ProblemCodeSuperseded)
		h.post("/v1/mutexes/deploy/release", `{"token":"`+tokenB+`"}`).want(http.StatusOK)
		(<-newer).want(http.StatusConflict, apigen.ProblemCodeLeftLine)
	})
}

func TestDrainEndsWaits(t *testing.T) {
	inBubble(t, defaultPolicy, func(t *testing.T, h *house) {
		h.post("/v1/mutexes/deploy/acquire", `{"token":"`+tokenA+`"}`).want(http.StatusOK)
		named := h.later(t.Context(), "POST", "/v1/mutexes/deploy/acquire", `{"token":"`+tokenB+`","wait_ms":30000}`)
		nameless := h.later(t.Context(), "POST", "/v1/mutexes/deploy/acquire", `{"wait_ms":30000}`)
		reader := h.later(t.Context(), "GET", "/v1/mutexes/deploy?revision=1000000&wait_ms=1", "")
		(<-reader).want(http.StatusOK)
		h.svc.Drain()
		a := (<-named).want(http.StatusServiceUnavailable, apigen.ProblemCodeDraining)
		if a.header.Get("Retry-After") != "1" || a.problem().Token != nil {
			t.Errorf("got Retry-After %q, token %v", a.header.Get("Retry-After"), a.problem().Token)
		}
		if p := (<-nameless).want(http.StatusServiceUnavailable).problem(); p.Token == nil {
			t.Error("a place without a token cannot be kept")
		}
		h.post("/v1/mutexes/deploy/guard", `{"token":"`+tokenA+`"}`).want(http.StatusOK)
		h.get("/readyz").want(http.StatusServiceUnavailable, apigen.ProblemCodeDraining)
		h.get("/v1/mutexes/deploy/events").want(http.StatusServiceUnavailable, apigen.ProblemCodeDraining)
		h.get("/healthz").want(http.StatusOK)
	})
}

// A caller that is gone is told nothing, least of all a 200.
func TestCallerGone(t *testing.T) {
	inBubble(t, defaultPolicy, func(t *testing.T, h *house) {
		h.post("/v1/mutexes/deploy/acquire", `{"token":"`+tokenA+`"}`).want(http.StatusOK)
		ctx, cancel := context.WithCancel(t.Context())
		bob := h.later(ctx, "POST", "/v1/mutexes/deploy/acquire", `{"token":"`+tokenB+`","wait_ms":30000}`)
		cancel()
		if a := <-bob; a.status != statusGone || a.text != "" {
			t.Errorf("got status %d, body %q", a.status, a.text)
		}
		h.post("/v1/mutexes/deploy/release", `{"token":"`+tokenA+`"}`).want(http.StatusOK)
		if got := decode[apigen.Mutex](h.get("/v1/mutexes/deploy").want(http.StatusOK)); got.State != apigen.MutexStateIdle {
			t.Errorf("got %+v", got)
		}
	})
}

// Exactly one of Told and Lost, whatever happens to the answer.
func TestGrantIsToldOrLost(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	for name, c := range map[string]struct {
		store      *granting
		ctx        context.Context
		told, lost int64
		status     int
	}{
		"told":     {&granting{}, t.Context(), 1, 0, http.StatusOK},
		"gone":     {&granting{before: cancel}, gone, 0, 1, statusGone},
		"panicked": {&granting{broken: true}, t.Context(), 0, 1, http.StatusInternalServerError},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouseOn(t, c.store, defaultPolicy)
			h.doCtx(c.ctx, "POST", "/v1/mutexes/deploy/acquire", "").want(c.status)
			if told, lost := c.store.told.Load(), c.store.lost.Load(); told != c.told || lost != c.lost {
				t.Errorf("got told %d, lost %d; want %d, %d", told, lost, c.told, c.lost)
			}
		})
	}
}

// A write that fails has told nobody.
func TestGrantIsLostWithItsAnswer(t *testing.T) {
	store := &granting{}
	h := newHouseOn(t, store, defaultPolicy)
	w := &stream{header: http.Header{}}
	w.breaks()
	h.handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/mutexes/deploy/acquire", http.NoBody))
	if told, lost := store.told.Load(), store.lost.Load(); told != 0 || lost != 1 {
		t.Errorf("got told %d, lost %d", told, lost)
	}
}

func TestTooManyWaiters(t *testing.T) {
	inBubble(t, defaultPolicy, func(t *testing.T, h *house) {
		h.do("PUT", "/v1/mutexes/deploy", `{"max_waiters":1}`).want(http.StatusCreated)
		h.post("/v1/mutexes/deploy/acquire", `{"token":"`+tokenA+`"}`).want(http.StatusOK)
		bob := h.later(t.Context(), "POST", "/v1/mutexes/deploy/acquire", `{"token":"`+tokenB+`","wait_ms":1000}`)
		a := h.post("/v1/mutexes/deploy/acquire", `{"wait_ms":1000}`).want(http.StatusTooManyRequests, apigen.ProblemCodeTooManyWaiters)
		if a.header.Get("Retry-After") != "1" {
			t.Errorf("got Retry-After %q", a.header.Get("Retry-After"))
		}
		(<-bob).want(http.StatusLocked)
	})
}

func TestAskingForMoreThanDeclared(t *testing.T) {
	h := newHouse(t, defaultPolicy)
	h.do("PUT", "/v1/mutexes/deploy", `{"ttl_ms":1000,"transition_ms":0}`).want(http.StatusCreated)
	h.post("/v1/mutexes/deploy/acquire", `{"ttl_ms":1001}`).wantField("ttl_ms")
	h.post("/v1/mutexes/deploy/acquire", `{"transition_ms":1}`).wantField("transition_ms")
	got := decode[apigen.Ownership](h.post("/v1/mutexes/deploy/acquire", `{"ttl_ms":500}`).want(http.StatusOK))
	if got.TtlMs != 500 || got.TransitionMs != 0 {
		t.Errorf("got %+v", got)
	}
}
