package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-lock/holdfast/internal/httpapi/apigen"
	"github.com/holdfast-lock/holdfast/internal/service"
	"github.com/holdfast-lock/holdfast/internal/service/servicetest"
	"github.com/holdfast-lock/holdfast/test/contract"
)

// maxWait is the longest poll in these tests.
const maxWait = 50 * time.Second

var defaultPolicy = service.Policy{DefaultTTL: 10 * time.Second, DefaultTransition: 6 * time.Second}

// house is an API on a store in memory.
type house struct {
	t       testing.TB
	svc     *service.Service
	store   *servicetest.Memory // nil when the store is another
	handler http.Handler
	log     *lockedBuffer
}

func newHouse(t testing.TB, policy service.Policy) *house {
	t.Helper()
	store := servicetest.NewMemory(policy)
	t.Cleanup(store.Close)
	h := newHouseOn(t, store, policy)
	h.store = store
	return h
}

func newHouseOn(t testing.TB, store service.Store, policy service.Policy) *house {
	t.Helper()
	log := &lockedBuffer{}
	h := newHouseWith(t, store, service.Config{Policy: policy, MaxWait: maxWait}, log)
	h.log = log
	return h
}

func newHouseWith(t testing.TB, store service.Store, cfg service.Config, log io.Writer) *house {
	t.Helper()
	svc := service.New(store, cfg)
	api, err := New(Config{
		Service: svc,
		Log:     slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err != nil {
		t.Fatal(err)
	}
	return &house{t: t, svc: svc, handler: api.Handler()}
}

// lockedBuffer is a log that a test can read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// answer is a response that was found to fit the contract.
type answer struct {
	t      testing.TB
	status int
	header http.Header
	text   string
}

// do sends a request and holds the response against the contract. Headers are
// given as name, value.
func (h *house) do(method, target, body string, headers ...string) *answer {
	h.t.Helper()
	return h.doCtx(context.Background(), method, target, body, headers...)
}

func (h *house) doCtx(ctx context.Context, method, target, body string, headers ...string) *answer {
	h.t.Helper()
	req := httptest.NewRequestWithContext(ctx, method, target, strings.NewReader(body))
	if body == "" {
		req.Body = http.NoBody
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	rec := httptest.NewRecorder()
	h.handler.ServeHTTP(rec, req)
	a := &answer{t: h.t, status: rec.Code, header: rec.Result().Header, text: rec.Body.String()}
	if rec.Code != statusGone {
		if err := contract.Check(req, contract.Answer{Status: a.status, Header: a.header, Body: []byte(a.text)}); err != nil {
			h.t.Errorf("%v; body: %s", err, a.text)
		}
	}
	return a
}

func (h *house) post(target, body string) *answer {
	h.t.Helper()
	return h.do(http.MethodPost, target, body)
}

func (h *house) get(target string) *answer {
	h.t.Helper()
	return h.do(http.MethodGet, target, "")
}

// want fails unless the response has this status, and, where it is a refusal,
// this code.
func (a *answer) want(status int, code ...apigen.ProblemCode) *answer {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("got status %d, want %d; body: %s", a.status, status, a.text)
	}
	if len(code) > 0 && a.problem().Code != code[0] {
		a.t.Fatalf("got code %s, want %s; body: %s", a.problem().Code, code[0], a.text)
	}
	return a
}

// wantField fails unless it is a 400 that names the field.
func (a *answer) wantField(field string) {
	a.t.Helper()
	p := a.want(http.StatusBadRequest, apigen.ProblemCodeInvalidArgument).problem()
	if got := value(p.Field); got != field {
		a.t.Errorf("got field %q, want %q; body: %s", got, field, a.text)
	}
}

func (a *answer) problem() apigen.Problem { return decode[apigen.Problem](a) }

func decode[T any](a *answer) (v T) {
	a.t.Helper()
	if err := json.Unmarshal([]byte(a.text), &v); err != nil {
		a.t.Fatalf("%v; body: %s", err, a.text)
	}
	return v
}

// serve puts the house on a real socket.
func (h *house) serve() *httptest.Server {
	h.t.Helper()
	srv := httptest.NewUnstartedServer(h.handler)
	srv.Config.ConnContext = ConnContext
	srv.Start()
	h.t.Cleanup(srv.Close)
	return srv
}

// eventually fails when ok stays false. It is for real sockets only.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("not within 10 s: %s", what)
}
