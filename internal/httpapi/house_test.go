package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"

	"github.com/holdfast-lock/holdfast/internal/httpapi/apigen"
	"github.com/holdfast-lock/holdfast/internal/service"
	"github.com/holdfast-lock/holdfast/internal/service/servicetest"
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
		checkContract(h.t, req, a)
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

// contract is parsed once; it is only read.
var contract = sync.OnceValue(func() *openapi3.T {
	doc, err := apigen.GetSpec()
	if err != nil {
		panic(err)
	}
	doc.Servers = nil
	return doc
})

var contractRouter = sync.OnceValue(func() routers.Router {
	router, err := legacy.NewRouter(contract())
	if err != nil {
		panic(err)
	}
	return router
})

// checkContract holds a response against the contract: its body against the
// schema, its headers, and that the operation knows the status and the code.
func checkContract(t testing.TB, req *http.Request, a *answer) {
	t.Helper()
	get := req.Clone(context.Background())
	if get.Method == http.MethodHead {
		get.Method = http.MethodGet
	}
	route, params, err := contractRouter().FindRoute(get)
	if err != nil || a.status == http.StatusMethodNotAllowed ||
		a.status == http.StatusNotFound && a.problem().Code == apigen.ProblemCodeNotFound {
		checkProblem(t, nil, a) // of no operation
		return
	}
	if a.status >= http.StatusBadRequest {
		checkProblem(t, route.Operation, a)
	}
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: get, PathParams: params, Route: route},
		Status:                 a.status,
		Header:                 a.header,
		Options: &openapi3filter.Options{
			IncludeResponseStatus: true,
			ExcludeResponseBody:   a.header.Get("Content-Type") == "text/event-stream" || a.status == http.StatusNoContent,
		},
	}
	input.SetBodyBytes([]byte(a.text))
	if err := openapi3filter.ValidateResponse(context.Background(), input); err != nil {
		t.Errorf("%s %s: status %d does not fit the contract: %v", req.Method, req.URL, a.status, err)
	}
}

// checkProblem holds a refusal against the schema, and its code against what op
// documents; op is nil where there is no operation.
func checkProblem(t testing.TB, op *openapi3.Operation, a *answer) {
	t.Helper()
	if got := a.header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("status %d: got Content-Type %q; body: %s", a.status, got, a.text)
		return
	}
	var raw any
	if err := json.Unmarshal([]byte(a.text), &raw); err != nil {
		t.Fatal(err)
	}
	if err := contract().Components.Schemas["Problem"].Value.VisitJSON(raw); err != nil {
		t.Errorf("not a problem: %v", err)
	}
	p := a.problem()
	if p.Status != a.status {
		t.Errorf("got status %d in the body of a %d", p.Status, a.status)
	}
	if op != nil && !slices.Contains(documentedCodes(op)[a.status], p.Code) {
		t.Errorf("%s does not document %d %s", op.OperationID, a.status, p.Code)
	}
	if (p.RetryAfterMs != nil) != (a.header.Get("Retry-After") != "") {
		t.Errorf("%s: retry_after_ms and Retry-After do not go together", p.Code)
	}
}

// documentedCodes are the names of the examples of each refusal.
func documentedCodes(op *openapi3.Operation) map[int][]apigen.ProblemCode {
	codes := map[int][]apigen.ProblemCode{}
	for text, ref := range op.Responses.Map() {
		media := ref.Value.Content["application/problem+json"]
		if media == nil {
			continue
		}
		status := 0
		for _, digit := range text {
			status = status*10 + int(digit-'0')
		}
		for name := range media.Examples {
			codes[status] = append(codes[status], apigen.ProblemCode(name))
		}
		slices.Sort(codes[status])
	}
	return codes
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
