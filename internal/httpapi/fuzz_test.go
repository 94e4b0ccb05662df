package httpapi

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-lock/holdfast/internal/service"
	"github.com/holdfast-lock/holdfast/internal/service/servicetest"
	"github.com/holdfast-lock/holdfast/test/contract"
)

// newFuzzHouse has waits that a fuzzer can afford.
func newFuzzHouse(f *testing.F) *house {
	store := servicetest.NewMemory(defaultPolicy)
	f.Cleanup(store.Close)
	h := newHouseWith(f, store, service.Config{Policy: defaultPolicy, MaxWait: time.Millisecond}, io.Discard)
	h.store = store
	return h
}

// check sends req and holds the answer against the contract; it returns the
// status, which is never a 5xx.
func (h *house) check(t *testing.T, req *http.Request) int {
	t.Helper()
	// A stream has no end of its own.
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	rec := httptest.NewRecorder()
	h.handler.ServeHTTP(rec, req.WithContext(ctx))
	if rec.Code == statusGone {
		t.Skip("not within its time")
	}
	if rec.Code >= http.StatusInternalServerError {
		t.Fatalf("got status %d; body: %s", rec.Code, rec.Body)
	}
	if err := contract.Check(req, contract.Answer{Status: rec.Code, Header: rec.Result().Header, Body: rec.Body.Bytes()}); err != nil {
		t.Errorf("%v; body: %s", err, rec.Body)
	}
	return rec.Code
}

// FuzzName: a name is served when the domain takes it, and is a 400 else,
// however it is written in the path.
func FuzzName(f *testing.F) {
	for _, name := range []string{"deploy", "..", "", "a/b", "\x00", "a:b", "%", "%2F", "ä", "a b", strings.Repeat("x", 201)} {
		f.Add(name, true)
		f.Add(name, false)
	}
	h := newFuzzHouse(f)
	f.Fuzz(func(t *testing.T, name string, escape bool) {
		segment := name
		if escape {
			segment = url.PathEscape(name)
		}
		req, err := http.ReadRequest(bufio.NewReader(strings.NewReader("GET /v1/mutexes/" + segment + " HTTP/1.1\r\nHost: test\r\n\r\n")))
		if err != nil {
			t.Skip("net/http does not take it")
		}
		status := h.check(t, req)
		if !escape {
			return // it may be another path altogether
		}
		want := http.StatusOK
		if _, err := service.ParseName("mutex", name); err != nil {
			want = http.StatusBadRequest
		}
		if status != want {
			t.Errorf("%q: got status %d, want %d", name, status, want)
		}
	})
}

// FuzzBody: whatever is sent, to whatever takes a body, is served or is the
// client's fault.
func FuzzBody(f *testing.F) {
	bodies := []string{"", "{}", "null", "[", `{"token":"` + tokenA + `"}`, `{"wait_ms":1e2,"ttl_ms":100,"transition_ms":0}`,
		`{"metadata":{"a":"b","a":"c"}}`, `{"fencing_token":9007199254740991}`, `{"labels":{"a":"b"},"max_hold_ms":0}`,
		`{"ownerships":[{"mutex":"deploy","token":"` + tokenA + `"}]}`, `{"contender_id":"\ud800","token":"` + tokenB + `"}`}
	for i, body := range bodies {
		f.Add(byte(i), []byte(body))
	}
	targets := []struct{ method, path string }{
		{"POST", "/v1/mutexes/deploy/acquire"}, {"POST", "/v1/mutexes/deploy/guard"}, {"POST", "/v1/mutexes/deploy/release"},
		{"POST", "/v1/mutexes/deploy/check"}, {"POST", "/v1/guard"}, {"PUT", "/v1/mutexes/deploy"},
	}
	h := newFuzzHouse(f)
	f.Fuzz(func(t *testing.T, which byte, body []byte) {
		target := targets[int(which)%len(targets)]
		h.check(t, httptest.NewRequest(target.method, target.path, strings.NewReader(string(body))))
		h.store.Compact()
	})
}
