package httpapi

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/holdfast-lock/holdfast/internal/httpapi/apigen"
	"github.com/holdfast-lock/holdfast/internal/service"
)

func TestGuard(t *testing.T) {
	inBubble(t, defaultPolicy, func(t *testing.T, h *house) {
		first := decode[apigen.Ownership](h.post("/v1/mutexes/deploy/acquire", `{"contender_id":"alice","token":"`+tokenA+`"}`).want(http.StatusOK))
		time.Sleep(12 * time.Second)
		mx := decode[apigen.Mutex](h.get("/v1/mutexes/deploy").want(http.StatusOK))
		if mx.State != apigen.MutexStateTransition || mx.Owner.TtlRemainingMs != 0 || mx.Owner.TtlAt != first.TtlAt || mx.Owner.TransitionRemainingMs != 4_000 {
			t.Errorf("got %s, %+v", mx.State, mx.Owner)
		}
		got := decode[apigen.Ownership](h.post("/v1/mutexes/deploy/guard", `{"contender_id":"alice","token":"`+tokenA+`"}`).want(http.StatusOK))
		if got.FencingToken != first.FencingToken || got.Token != tokenA || got.TtlRemainingMs != 10_000 {
			t.Errorf("got %+v", got)
		}
	})
}

func TestGuardTooLate(t *testing.T) {
	inBubble(t, defaultPolicy, func(t *testing.T, h *house) {
		first := decode[apigen.Ownership](h.post("/v1/mutexes/deploy/acquire", `{"token":"`+tokenA+`"}`).want(http.StatusOK))
		time.Sleep(17 * time.Second)
		h.post("/v1/mutexes/deploy/acquire", `{"contender_id":"bob"}`).want(http.StatusOK)
		for _, verb := range []string{"guard", "release"} {
			p := h.post("/v1/mutexes/deploy/"+verb, `{"token":"`+tokenA+`"}`).want(http.StatusConflict, apigen.ProblemCodeNotOwner).problem()
			if value(p.Ended) != apigen.EndingExpired || p.Holder == nil || p.Holder.ContenderId != "bob" || value(p.FencingToken) != first.FencingToken {
				t.Errorf("%s: got %+v", verb, p)
			}
		}
		p := h.post("/v1/mutexes/deploy/acquire", `{"token":"`+tokenA+`"}`).want(http.StatusConflict, apigen.ProblemCodeTokenSpent).problem()
		if value(p.Ended) != apigen.EndingExpired {
			t.Errorf("got %+v", p)
		}
	})
}

func TestGuardByAStranger(t *testing.T) {
	h := newHouse(t, defaultPolicy)
	p := h.post("/v1/mutexes/deploy/guard", `{"token":"`+tokenA+`"}`).want(http.StatusConflict, apigen.ProblemCodeNotOwner).problem()
	if value(p.Ended) != apigen.EndingUnknown || p.Holder != nil {
		t.Errorf("got %+v", p)
	}
}

func TestMaxHold(t *testing.T) {
	inBubble(t, defaultPolicy, func(t *testing.T, h *house) {
		h.do("PUT", "/v1/mutexes/deploy", `{"max_hold_ms":12000}`).want(http.StatusCreated)
		h.post("/v1/mutexes/deploy/acquire", `{"token":"`+tokenA+`"}`).want(http.StatusOK)
		time.Sleep(8 * time.Second)
		got := decode[apigen.Ownership](h.post("/v1/mutexes/deploy/guard", `{"token":"`+tokenA+`"}`).want(http.StatusOK))
		if got.TransitionRemainingMs != 4_000 {
			t.Errorf("got %+v", got)
		}
	})
}

func TestBatchGuard(t *testing.T) {
	h := newHouse(t, defaultPolicy)
	h.post("/v1/mutexes/a/acquire", `{"contender_id":"alice","token":"`+tokenA+`"}`).want(http.StatusOK)
	h.post("/v1/mutexes/b/acquire", `{"token":"`+tokenB+`"}`).want(http.StatusOK)
	body := fmt.Sprintf(`{"ownerships":[{"mutex":"a","contender_id":"alice","token":%q},{"mutex":"b","token":%q},{"mutex":"b","token":%q},{"mutex":"c","token":%q}]}`,
		tokenA, tokenA, tokenB, tokenB)
	got := decode[apigen.BatchGuardResult](h.post("/v1/guard", body).want(http.StatusOK)).Results
	if len(got) != 4 {
		t.Fatalf("got %d results", len(got))
	}
	for i, want := range []struct {
		mutex  string
		status apigen.GuardStatus
	}{
		{"a", apigen.GuardStatusGuarded}, {"b", apigen.GuardStatusNotOwner},
		{"b", apigen.GuardStatusGuarded}, {"c", apigen.GuardStatusNotOwner},
	} {
		if got[i].Mutex != want.mutex || got[i].Status != want.status {
			t.Errorf("%d: got %s %s, want %s %s", i, got[i].Mutex, got[i].Status, want.mutex, want.status)
		}
	}
	if o := got[0].Ownership; o == nil || o.ContenderId != "alice" || o.Token != tokenA {
		t.Errorf("got %+v", o)
	}
	if o := got[1]; o.Holder == nil || o.Holder.ContenderId != string(service.Anonymous(tokenB)) || value(o.Ended) != apigen.EndingUnknown {
		t.Errorf("got %+v", o)
	}
}

func TestRelease(t *testing.T) {
	h := newHouse(t, defaultPolicy)
	release := func(op string) apigen.ReleaseResult {
		return decode[apigen.ReleaseResult](h.post("/v1/mutexes/deploy/release", `{"token":"`+tokenA+`"`+op+`}`).want(http.StatusOK))
	}
	h.post("/v1/mutexes/deploy/acquire", `{"token":"`+tokenA+`"}`).want(http.StatusOK)
	mine := `,"operation_id":"mine"`
	if got := release(mine); !got.Released || got.Reason != nil {
		t.Errorf("got %+v", got)
	}
	if got := release(mine); !got.Released {
		t.Errorf("my own retry: got %+v", got)
	}
	if got := release(""); got.Released || value(got.Reason) != apigen.ReleaseReasonAlreadyReleased {
		t.Errorf("a repeat: got %+v", got)
	}
}

func TestReleaseLeavesTheLine(t *testing.T) {
	inBubble(t, defaultPolicy, func(t *testing.T, h *house) {
		h.post("/v1/mutexes/deploy/acquire", `{"token":"`+tokenA+`"}`).want(http.StatusOK)
		bob := h.later(t.Context(), "POST", "/v1/mutexes/deploy/acquire", `{"token":"`+tokenB+`","wait_ms":30000}`)
		got := decode[apigen.ReleaseResult](h.post("/v1/mutexes/deploy/release", `{"token":"`+tokenB+`"}`).want(http.StatusOK))
		if got.Released || value(got.Reason) != apigen.ReleaseReasonLeftLine {
			t.Errorf("got %+v", got)
		}
		(<-bob).want(http.StatusConflict, apigen.ProblemCodeLeftLine)
	})
}

func TestCheck(t *testing.T) {
	h := newHouse(t, defaultPolicy)
	check := func(fence int64) apigen.CheckResult {
		return decode[apigen.CheckResult](h.post("/v1/mutexes/deploy/check", fmt.Sprintf(`{"fencing_token":%d}`, fence)).want(http.StatusOK))
	}
	if got := check(1); got.Current || got.FencingToken != nil {
		t.Errorf("idle: got %+v", got)
	}
	owned := decode[apigen.Ownership](h.post("/v1/mutexes/deploy/acquire", "").want(http.StatusOK))
	if got := check(owned.FencingToken); !got.Current || value(got.FencingToken) != owned.FencingToken {
		t.Errorf("current: got %+v", got)
	}
	if got := check(owned.FencingToken + 1); got.Current || value(got.FencingToken) != owned.FencingToken {
		t.Errorf("another: got %+v", got)
	}
}
