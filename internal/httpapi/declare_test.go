package httpapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-lock/holdfast/internal/httpapi/apigen"
	"github.com/holdfast-lock/holdfast/internal/service"
)

func TestDeclareTakesDefaults(t *testing.T) {
	h := newHouse(t, defaultPolicy)
	for _, body := range []string{"", "{}"} {
		got := decode[apigen.Mutex](h.do("PUT", "/v1/mutexes/m"+strconv.Itoa(len(body)), body).want(http.StatusCreated))
		s := got.Settings
		if !got.Declared || s.TtlMs != 10_000 || s.TransitionMs != 6_000 || s.MaxHoldMs != 0 || s.MaxWaiters != 0 || s.Description != "" || len(s.Labels) != 0 {
			t.Errorf("got %+v", got)
		}
	}
}

func TestDeclareIsWhole(t *testing.T) {
	h := newHouse(t, defaultPolicy)
	full := `{"description":"d","ttl_ms":1000,"transition_ms":0,"max_hold_ms":60000,"max_waiters":3,"labels":{"team":"x","a/b":""}}`
	got := decode[apigen.Mutex](h.do("PUT", "/v1/mutexes/deploy", full).want(http.StatusCreated)).Settings
	if got.Description != "d" || got.TtlMs != 1000 || got.TransitionMs != 0 || got.MaxHoldMs != 60_000 || got.MaxWaiters != 3 ||
		!maps.Equal(got.Labels, apigen.Labels{"team": "x", "a/b": ""}) {
		t.Errorf("got %+v", got)
	}
	got = decode[apigen.Mutex](h.do("PUT", "/v1/mutexes/deploy", `{"ttl_ms":2000}`).want(http.StatusOK)).Settings
	if got.Description != "" || got.TtlMs != 2000 || got.TransitionMs != 6000 || got.MaxHoldMs != 0 || got.MaxWaiters != 0 || len(got.Labels) != 0 {
		t.Errorf("got %+v", got)
	}
}

func TestETags(t *testing.T) {
	h := newHouse(t, defaultPolicy)
	const path = "/v1/mutexes/deploy"
	if etag := h.get(path).want(http.StatusOK).header.Get("ETag"); etag != "" {
		t.Errorf("an ad hoc mutex has ETag %s", etag)
	}
	h.do("PUT", path, "", "If-Match", `"1"`).want(http.StatusPreconditionFailed, apigen.ProblemCodePreconditionFailed)
	first := h.do("PUT", path, "", "If-None-Match", "*").want(http.StatusCreated).header.Get("ETag")
	if first == "" || h.get(path).header.Get("ETag") != first {
		t.Fatalf("got ETag %q, then %q", first, h.get(path).header.Get("ETag"))
	}
	h.do("PUT", path, "", "If-None-Match", "*").want(http.StatusPreconditionFailed)

	h.post(path+"/acquire", `{"token":"`+tokenA+`"}`).want(http.StatusOK)
	if got := h.get(path).header.Get("ETag"); got != first {
		t.Errorf("the state changed the entity tag: got %s, want %s", got, first)
	}
	second := h.do("PUT", path, `{"ttl_ms":500}`, "If-Match", first).want(http.StatusOK).header.Get("ETag")
	if second == first || second == "" {
		t.Errorf("got ETag %q after %q", second, first)
	}
	for _, stale := range []string{first, `"0"`, `"x"`, `""`, `"-1"`, "W/" + second} {
		h.do("PUT", path, "", "If-Match", stale).want(http.StatusPreconditionFailed)
		h.do("DELETE", path+"?force=true", "", "If-Match", stale).want(http.StatusPreconditionFailed)
	}
	h.do("DELETE", path+"?force=true", "", "If-Match", second).want(http.StatusNoContent)
	h.do("DELETE", path, "").want(http.StatusNotFound, apigen.ProblemCodeMutexNotDeclared)
}

func TestRemoveHeld(t *testing.T) {
	h := newHouse(t, defaultPolicy)
	h.do("PUT", "/v1/mutexes/deploy", "").want(http.StatusCreated)
	h.post("/v1/mutexes/deploy/acquire", `{"contender_id":"alice","token":"`+tokenA+`"}`).want(http.StatusOK)
	p := h.do("DELETE", "/v1/mutexes/deploy", "").want(http.StatusConflict, apigen.ProblemCodeMutexHeld).problem()
	if p.Holder == nil || p.Holder.ContenderId != "alice" {
		t.Errorf("got %+v", p)
	}
	a := h.do("DELETE", "/v1/mutexes/deploy?force=true", "").want(http.StatusNoContent)
	if a.text != "" {
		t.Errorf("got body %q", a.text)
	}
	p = h.post("/v1/mutexes/deploy/guard", `{"contender_id":"alice","token":"`+tokenA+`"}`).want(http.StatusConflict).problem()
	if value(p.Ended) != apigen.EndingBroken {
		t.Errorf("got %+v", p)
	}
}

func TestDenyUndeclared(t *testing.T) {
	deny := defaultPolicy
	deny.DenyUndeclared = true
	h := newHouse(t, deny)
	for _, op := range []string{"acquireMutex", "checkFencingToken", "getMutex", "listWaiters", "listHistory", "streamEvents", "removeMutex"} {
		r := valid[op]
		p := h.do(r.method, r.target, r.body).want(http.StatusNotFound, apigen.ProblemCodeMutexNotDeclared).problem()
		if value(p.Mutex) != "deploy" {
			t.Errorf("%s: got mutex %q", op, value(p.Mutex))
		}
	}
	h.do("PUT", "/v1/mutexes/deploy", "").want(http.StatusCreated)
	h.post("/v1/mutexes/deploy/acquire", "").want(http.StatusOK)
}

func TestBreakAndHistory(t *testing.T) {
	inBubble(t, defaultPolicy, func(t *testing.T, h *house) {
		h.do("PUT", "/v1/mutexes/deploy", "").want(http.StatusCreated)
		owned := decode[apigen.Ownership](h.post("/v1/mutexes/deploy/acquire", `{"contender_id":"alice","token":"`+tokenA+`"}`).want(http.StatusOK))
		breaks := func(fence int64) *answer {
			return h.do("DELETE", fmt.Sprintf("/v1/mutexes/deploy/owner?fencing_token=%d&reason=runner+gone", fence), "")
		}
		p := breaks(owned.FencingToken+1).want(http.StatusPreconditionFailed, apigen.ProblemCodePreconditionFailed).problem()
		if p.Holder == nil || p.Holder.FencingToken != owned.FencingToken {
			t.Errorf("got %+v", p)
		}
		time.Sleep(time.Second)
		for range 2 {
			got := decode[apigen.PastOwnership](breaks(owned.FencingToken).want(http.StatusOK))
			if got.ContenderId != "alice" || got.Ended != apigen.EndingBroken || value(got.Reason) != "runner gone" || got.FencingToken != owned.FencingToken {
				t.Errorf("got %+v", got)
			}
		}
		past := decode[apigen.History](h.get("/v1/mutexes/deploy/history").want(http.StatusOK)).History
		if len(past) != 1 || value(past[0].Reason) != "runner gone" || past[0].EndedAt <= past[0].AcquiredAt {
			t.Errorf("got %+v", past)
		}
		log := h.log.String()
		for _, want := range []string{`"reason":"runner gone"`, `"broken_contender":"alice"`} {
			if !contains(log, want) {
				t.Errorf("the log has no %s: %s", want, log)
			}
		}
	})
}

func TestListPagesAndFilters(t *testing.T) {
	inBubble(t, defaultPolicy, func(t *testing.T, h *house) {
		for i := range 7 {
			labels, _ := json.Marshal(map[string]string{"team": []string{"red", "blue"}[i%2], "tier": "1=one"})
			h.do("PUT", fmt.Sprintf("/v1/mutexes/app:%d", i), fmt.Sprintf(`{"labels":%s}`, labels)).want(http.StatusCreated)
		}
		h.post("/v1/mutexes/other/acquire", `{"contender_id":"alice smith"}`).want(http.StatusOK)

		var all []string
		target, pages := "/v1/mutexes?page_size=3", 0
		for next := ""; ; pages++ {
			page := decode[apigen.MutexList](h.get(target + next).want(http.StatusOK))
			for _, m := range page.Mutexes {
				all = append(all, m.Name)
			}
			if page.NextPageToken == nil {
				break
			}
			next = "&page_token=" + *page.NextPageToken
		}
		if got := fmt.Sprint(all); got != "[app:0 app:1 app:2 app:3 app:4 app:5 app:6 other]" || pages != 2 {
			t.Errorf("got %s, %d pages", got, pages+1)
		}
		for query, want := range map[string]int{
			"":                                   8,
			"?prefix=app:":                       7,
			"?prefix=nothing":                    0,
			"?state=idle":                        7,
			"?state=ttl":                         1,
			"?owner=alice+smith":                 1,
			"?owner=bob":                         0,
			"?label=team=red":                    4,
			"?label=team%3Dred&label=tier=1=one": 4,
			"?label=team=red&label=tier=2":       0,
			"?label=team=blue&prefix=app:1":      1,
			"?page_size=1000":                    8,
		} {
			page := decode[apigen.MutexList](h.get("/v1/mutexes" + query).want(http.StatusOK))
			if len(page.Mutexes) != want || page.NextPageToken != nil {
				t.Errorf("%s: got %d, want %d", query, len(page.Mutexes), want)
			}
		}
	})
}

func TestBlockingRead(t *testing.T) {
	inBubble(t, defaultPolicy, func(t *testing.T, h *house) {
		h.post("/v1/mutexes/deploy/acquire", `{"token":"`+tokenA+`"}`).want(http.StatusOK)
		now := decode[apigen.Mutex](h.get("/v1/mutexes/deploy").want(http.StatusOK))
		target := fmt.Sprintf("/v1/mutexes/deploy?revision=%d&wait_ms=5000", now.Revision)

		start := time.Now()
		same := decode[apigen.Mutex](h.get(target).want(http.StatusOK))
		if took := time.Since(start); took != 5*time.Second || same.Revision != now.Revision {
			t.Errorf("got revision %d after %s", same.Revision, took)
		}
		waiting := h.later(t.Context(), "GET", target, "")
		h.post("/v1/mutexes/deploy/release", `{"token":"`+tokenA+`"}`).want(http.StatusOK)
		start = time.Now()
		next := decode[apigen.Mutex]((<-waiting).want(http.StatusOK))
		if next.Revision <= now.Revision || next.State != apigen.MutexStateIdle || next.Owner != nil || time.Since(start) != 0 {
			t.Errorf("got %+v", next)
		}
		h.get("/v1/mutexes/deploy?revision=9007199254740991&wait_ms=5000").want(http.StatusOK)
		h.get("/v1/mutexes/deploy?wait_ms=5000").want(http.StatusOK)
		if time.Since(start) != 0 {
			t.Errorf("waited %s", time.Since(start))
		}
	})
}

func TestProbesAndContract(t *testing.T) {
	h := newHouse(t, defaultPolicy)
	h.get("/healthz").want(http.StatusOK)
	h.get("/readyz").want(http.StatusOK)
	doc := decode[map[string]any](h.get("/openapi.json").want(http.StatusOK))
	if doc["openapi"] != "3.0.3" {
		t.Errorf("got %v", doc["openapi"])
	}
	down := newHouseOn(t, &failing{err: service.Of(service.KindUnavailable)}, defaultPolicy)
	down.get("/readyz").want(http.StatusServiceUnavailable, apigen.ProblemCodeUnavailable)
	down.get("/healthz").want(http.StatusOK)
}
