package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/holdfast-lock/holdfast/internal/httpapi/apigen"
	"github.com/holdfast-lock/holdfast/internal/service"
)

const (
	tokenA = "token-of-alice-0001"
	tokenB = "token-of-bob-000001"
)

// valid is a request of each operation that the contract has nothing against.
var valid = map[string]struct{ method, target, body string }{
	"acquireMutex":      {"POST", "/v1/mutexes/deploy/acquire", `{"token":"` + tokenA + `"}`},
	"guardMutex":        {"POST", "/v1/mutexes/deploy/guard", `{"token":"` + tokenA + `"}`},
	"guardMutexes":      {"POST", "/v1/guard", `{"ownerships":[{"mutex":"deploy","token":"` + tokenA + `"}]}`},
	"releaseMutex":      {"POST", "/v1/mutexes/deploy/release", `{"token":"` + tokenA + `"}`},
	"checkFencingToken": {"POST", "/v1/mutexes/deploy/check", `{"fencing_token":1}`},
	"getMutex":          {"GET", "/v1/mutexes/deploy", ""},
	"declareMutex":      {"PUT", "/v1/mutexes/deploy", `{}`},
	"removeMutex":       {"DELETE", "/v1/mutexes/deploy", ""},
	"listWaiters":       {"GET", "/v1/mutexes/deploy/waiters", ""},
	"listHistory":       {"GET", "/v1/mutexes/deploy/history", ""},
	"streamEvents":      {"GET", "/v1/mutexes/deploy/events", ""},
	"breakOwnership":    {"DELETE", "/v1/mutexes/deploy/owner?fencing_token=1&reason=gone", ""},
	"listMutexes":       {"GET", "/v1/mutexes", ""},
	"getHealth":         {"GET", "/healthz", ""},
	"getReadiness":      {"GET", "/readyz", ""},
	"getContract":       {"GET", "/openapi.json", ""},
}

// Each operation meets each kind of error that its call can return; the answer
// is the one of the table, and fits the contract.
func TestEveryKindOfEveryOperation(t *testing.T) {
	holder := &service.Ownership{Contender: "bob", Fence: 7, TTL: defaultPolicy.DefaultTTL}
	forEachOperation(func(_, _ string, op *openapi3.Operation) {
		for _, kind := range kindsOf[op.OperationID] {
			t.Run(op.OperationID+"/"+kind.String(), func(t *testing.T) {
				err := &service.Error{Kind: kind, Mutex: "deploy", Holder: holder, Ended: service.EndedExpired,
					Fence: 5, Err: errors.New("hush")}
				h := newHouseOn(t, &failing{err: fmt.Errorf("wrapped: %w", err)}, defaultPolicy)
				r := valid[op.OperationID]
				a := h.do(r.method, r.target, r.body).want(refusals[kind].status, refusals[kind].code)
				if strings.Contains(a.text, "hush") {
					t.Errorf("the cause is told: %s", a.text)
				}
				if !strings.Contains(h.log.String(), "hush") {
					t.Errorf("the cause is not logged: %s", h.log.String())
				}
			})
		}
	})
}

func TestUnforeseenErrorsAreOpaque(t *testing.T) {
	forEachOperation(func(_, _ string, op *openapi3.Operation) {
		t.Run(op.OperationID, func(t *testing.T) {
			h := newHouseOn(t, &failing{err: errors.New("hush")}, defaultPolicy)
			r, want := valid[op.OperationID], http.StatusInternalServerError
			if op.OperationID == "getHealth" || op.OperationID == "getContract" {
				want = http.StatusOK // they ask nobody
			}
			a := h.do(r.method, r.target, r.body).want(want)
			if strings.Contains(a.text, "hush") {
				t.Errorf("the cause is told: %s", a.text)
			}
		})
	})
}

func TestPanicIsOpaque(t *testing.T) {
	h := newHouseOn(t, &panicking{}, defaultPolicy)
	a := h.post("/v1/mutexes/deploy/acquire", "").want(http.StatusInternalServerError, apigen.ProblemCodeInternal)
	if strings.Contains(a.text, "defect") {
		t.Errorf("the panic is told: %s", a.text)
	}
	if log := h.log.String(); !strings.Contains(log, "a defect") || !strings.Contains(log, "failing_test.go") {
		t.Errorf("the log has not the panic and its stack: %s", log)
	}
}

func TestBatchOutcomes(t *testing.T) {
	for kind, want := range map[service.Kind]apigen.GuardStatus{
		service.KindNotOwner:       apigen.GuardStatusNotOwner,
		service.KindMaxHoldReached: apigen.GuardStatusMaxHoldReached,
		service.KindOutcomeUnknown: apigen.GuardStatusOutcomeUnknown,
		service.KindUnavailable:    apigen.GuardStatusOutcomeUnknown,
	} {
		h := newHouseOn(t, &failing{err: service.Of(kind)}, defaultPolicy)
		r := valid["guardMutexes"]
		got := decode[apigen.BatchGuardResult](h.do(r.method, r.target, r.body).want(http.StatusOK))
		if len(got.Results) != 1 || got.Results[0].Status != want {
			t.Errorf("%s: got %+v, want %s", kind, got, want)
		}
	}
}

// What only a client can get wrong is a 4xx that names the field at fault.
func TestBadRequests(t *testing.T) {
	h := newHouse(t, defaultPolicy)
	const acquire, guard = "/v1/mutexes/deploy/acquire", "/v1/mutexes/deploy/guard"
	long := strings.Repeat("x", 201)
	for _, c := range []struct{ name, method, target, body, field string }{
		{"unknown field", "POST", acquire, `{"tokn":"` + tokenA + `"}`, "tokn"},
		{"wrong case", "POST", acquire, `{"Token":"` + tokenA + `"}`, "Token"},
		{"twice", "POST", acquire, `{"token":"` + tokenA + `","token":"` + tokenB + `"}`, "token"},
		{"twice below", "POST", acquire, `{"metadata":{"a":"1","a":"2"}}`, "metadata.a"},
		{"truncated", "POST", acquire, `{"token":"` + tokenA, ""},
		{"trailing value", "POST", acquire, `{} {}`, ""},
		{"trailing text", "POST", acquire, `{}x`, ""},
		{"trailing bracket", "POST", acquire, `{}]`, ""},
		{"not an object", "POST", acquire, `[]`, ""},
		{"null", "POST", acquire, `null`, ""},
		{"not JSON", "POST", acquire, `token=1`, ""},
		{"not UTF-8", "POST", acquire, "{\"contender_id\":\"\xff\"}", ""},
		{"deep", "POST", acquire, strings.Repeat("[", 1<<19), ""},
		{"short token", "POST", acquire, `{"token":"short"}`, "token"},
		{"long token", "POST", acquire, `{"token":"` + long + `"}`, "token"},
		{"token not ASCII", "POST", acquire, `{"token":"ääääääääääääääääää"}`, "token"},
		{"null token", "POST", acquire, `{"token":null}`, "token"},
		{"empty contender", "POST", acquire, `{"contender_id":""}`, "contender_id"},
		{"long contender", "POST", acquire, `{"contender_id":"` + long + `"}`, "contender_id"},
		{"contender with a control", "POST", acquire, `{"contender_id":"a\u0000b"}`, "contender_id"},
		{"contender not printable", "POST", acquire, `{"contender_id":"a\u2028b"}`, "contender_id"},
		{"negative wait", "POST", acquire, `{"wait_ms":-1}`, "wait_ms"},
		{"half a wait", "POST", acquire, `{"wait_ms":0.5}`, "wait_ms"},
		{"wait as text", "POST", acquire, `{"wait_ms":"1"}`, "wait_ms"},
		{"endless wait", "POST", acquire, `{"wait_ms":1e999}`, "wait_ms"},
		{"large wait", "POST", acquire, `{"wait_ms":18446744073709551616}`, "wait_ms"},
		{"small ttl", "POST", acquire, `{"ttl_ms":99}`, "ttl_ms"},
		{"large ttl", "POST", acquire, `{"ttl_ms":86400001}`, "ttl_ms"},
		{"large transition", "POST", acquire, `{"transition_ms":3600001}`, "transition_ms"},
		{"metadata not flat", "POST", acquire, `{"metadata":{"a":{}}}`, "metadata.a"},
		{"large metadata", "POST", acquire, `{"metadata":{"a":"` + strings.Repeat("x", 2048) + `"}}`, "metadata"},
		{"no token", "POST", guard, `{}`, "token"},
		{"no body", "POST", guard, ``, "token"},
		{"release, no token", "POST", "/v1/mutexes/deploy/release", ``, "token"},
		{"empty operation", "POST", "/v1/mutexes/deploy/release", `{"token":"` + tokenA + `","operation_id":""}`, "operation_id"},
		{"check nothing", "POST", "/v1/mutexes/deploy/check", `{}`, "fencing_token"},
		{"check 0", "POST", "/v1/mutexes/deploy/check", `{"fencing_token":0}`, "fencing_token"},
		{"check 2^53", "POST", "/v1/mutexes/deploy/check", `{"fencing_token":9007199254740992}`, "fencing_token"},
		{"empty batch", "POST", "/v1/guard", `{"ownerships":[]}`, "ownerships"},
		{"large batch", "POST", "/v1/guard", `{"ownerships":[` + strings.Repeat(`{"mutex":"m","token":"`+tokenA+`"},`, 1000) +
			`{"mutex":"m","token":"` + tokenA + `"}]}`, "ownerships"},
		{"bad name in a batch", "POST", "/v1/guard", `{"ownerships":[{"mutex":"m","token":"` + tokenA + `"},{"mutex":"..","token":"` + tokenA + `"}]}`, "ownerships[1].mutex"},
		{"bad token in a batch", "POST", "/v1/guard", `{"ownerships":[{"mutex":"m","token":"x"}]}`, "ownerships[0].token"},
		{"not printable in a batch", "POST", "/v1/guard", `{"ownerships":[{"mutex":"m","contender_id":"\u2028","token":"` + tokenA + `"}]}`, "ownerships[0].contender_id"},
		{"unknown in a batch", "POST", "/v1/guard", `{"ownerships":[{"mutex":"m","token":"` + tokenA + `","x":1}]}`, "ownerships[0].x"},
		{"unknown query", "GET", "/v1/mutexes/deploy?wait=1", "", "wait"},
		{"unknown query of a probe", "GET", "/healthz?x=1", "", "x"},
		{"query twice", "GET", "/v1/mutexes/deploy?wait_ms=1&wait_ms=2", "", "wait_ms"},
		{"query not escaped", "GET", "/v1/mutexes/deploy?wait_ms=%zz", "", ""},
		{"query with semicolon", "GET", "/v1/mutexes/deploy?wait_ms=1;revision=1", "", ""},
		{"wait is text", "GET", "/v1/mutexes/deploy?wait_ms=soon", "", "wait_ms"},
		{"wait is 1e3", "GET", "/v1/mutexes/deploy?wait_ms=1e3", "", "wait_ms"},
		{"wait is 1.0", "GET", "/v1/mutexes/deploy?wait_ms=1.0", "", "wait_ms"},
		{"wait is empty", "GET", "/v1/mutexes/deploy?wait_ms=", "", "wait_ms"},
		{"negative revision", "GET", "/v1/mutexes/deploy?revision=-1", "", "revision"},
		{"large revision", "GET", "/v1/mutexes/deploy?revision=99999999999999999999", "", "revision"},
		{"body of a GET", "GET", "/v1/mutexes/deploy", "{}", ""},
		{"break, no token", "DELETE", "/v1/mutexes/deploy/owner?reason=x", "", "fencing_token"},
		{"break, no reason", "DELETE", "/v1/mutexes/deploy/owner?fencing_token=1", "", "reason"},
		{"break, empty reason", "DELETE", "/v1/mutexes/deploy/owner?fencing_token=1&reason=", "", "reason"},
		{"break, long reason", "DELETE", "/v1/mutexes/deploy/owner?fencing_token=1&reason=" + strings.Repeat("x", 501), "", "reason"},
		{"contenders", "PUT", "/v1/mutexes/deploy", `{"contenders":["repo:*"]}`, "contenders"},
		{"no contenders", "PUT", "/v1/mutexes/deploy", `{"contenders":[]}`, "contenders"},
		{"bad label", "PUT", "/v1/mutexes/deploy", `{"labels":{"a=b":"c"}}`, "labels"},
		{"empty label", "PUT", "/v1/mutexes/deploy", `{"labels":{"":"c"}}`, "labels"},
		{"label not text", "PUT", "/v1/mutexes/deploy", `{"labels":{"a":1}}`, "labels.a"},
		{"long description", "PUT", "/v1/mutexes/deploy", `{"description":"` + strings.Repeat("x", 1001) + `"}`, "description"},
		{"name in the settings", "PUT", "/v1/mutexes/deploy", `{"name":"deploy"}`, "name"},
		{"force is a word", "DELETE", "/v1/mutexes/deploy?force=yes", "", "force"},
		{"page of nothing", "GET", "/v1/mutexes?page_size=0", "", "page_size"},
		{"page too large", "GET", "/v1/mutexes?page_size=1001", "", "page_size"},
		{"page token made up", "GET", "/v1/mutexes?page_token=a", "", "page_token"},
		{"page token of no name", "GET", "/v1/mutexes?page_token=Li4", "", "page_token"},
		{"no such state", "GET", "/v1/mutexes?state=held", "", "state"},
		{"label without value", "GET", "/v1/mutexes?label=team", "", "label"},
		{"two values of a label", "GET", "/v1/mutexes?label=team=a&label=team=b", "", "label"},
		{"owner not printable", "GET", "/v1/mutexes?owner=%E2%80%A8", "", "owner"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := h.do(c.method, c.target, c.body)
			a.wantField(c.field)
			if strings.Contains(a.text, tokenA) {
				t.Errorf("the answer repeats the token: %s", a.text)
			}
		})
	}
}

func TestBadHeaders(t *testing.T) {
	h := newHouse(t, defaultPolicy)
	h.do("PUT", "/v1/mutexes/deploy", "", "If-Match", "*").wantField("If-Match")
	h.do("PUT", "/v1/mutexes/deploy", "", "If-Match", `"1", "2"`).wantField("If-Match")
	h.do("PUT", "/v1/mutexes/deploy", "", "If-Match", "1").wantField("If-Match")
	h.do("PUT", "/v1/mutexes/deploy", "", "If-Match", `"1"`, "If-Match", `"2"`).wantField("If-Match")
	h.do("PUT", "/v1/mutexes/deploy", "", "If-None-Match", `"1"`).wantField("If-None-Match")
	h.do("PUT", "/v1/mutexes/deploy", "", "If-Match", `"1"`, "If-None-Match", "*").wantField("If-Match")
	h.do("DELETE", "/v1/mutexes/deploy", "", "If-Match", "").wantField("If-Match")
	for _, id := range []string{"x", "1", "1.", ".1", "-1.0", "1.0.0", "99999999999999999999.0", ""} {
		h.do("GET", "/v1/mutexes/deploy/events", "", "Last-Event-ID", id).wantField("Last-Event-ID")
	}
}

func TestBodyTooLarge(t *testing.T) {
	h := newHouse(t, defaultPolicy)
	two := `{"metadata":{"a":"` + strings.Repeat("x", 2<<20) + `"}}`
	h.post("/v1/mutexes/deploy/acquire", two).want(http.StatusRequestEntityTooLarge, apigen.ProblemCodeBodyTooLarge)
	h.post("/v1/mutexes/deploy/acquire", strings.Repeat(" ", maxBody)).want(http.StatusOK)
	h.do("PUT", "/v1/mutexes/deploy", strings.Repeat(" ", maxBody+1)).want(http.StatusRequestEntityTooLarge)
}

func TestNames(t *testing.T) {
	h := newHouse(t, defaultPolicy)
	long := strings.Repeat("x", 200)
	for _, name := range []string{"..", ".", "", "a%2Fb", "%00", "a%00b", long + "x", "a%25b", "%2e%2e", "-a", "a%20b", "a+b",
		"%C3%A4", "a%0A", ":a", "{a}", "a;b", "a%3Fb", "%2F"} {
		h.post("/v1/mutexes/"+name+"/acquire", "").wantField("mutex")
		h.get("/v1/mutexes/" + name).wantField("mutex")
		h.do("PUT", "/v1/mutexes/"+name, "").wantField("mutex")
		h.do("DELETE", "/v1/mutexes/"+name+"/owner?fencing_token=1&reason=x", "").wantField("mutex")
	}
	for _, name := range []string{"a:b", "a%3Ab", "a%3ab", long, "a..b", "0", "_", "a@b~c-d.e", "%61"} {
		h := newHouse(t, defaultPolicy)
		h.post("/v1/mutexes/"+name+"/acquire", "").want(http.StatusOK)
	}
	h = newHouse(t, defaultPolicy)
	h.post("/v1/mutexes/a%3Ab/acquire", "").want(http.StatusOK)
	if got := decode[apigen.Mutex](h.get("/v1/mutexes/a:b").want(http.StatusOK)); got.State != apigen.MutexStateTtl {
		t.Errorf("a%%3Ab and a:b are two: got state %s", got.State)
	}
}

func TestNoSuchRoute(t *testing.T) {
	h := newHouse(t, defaultPolicy)
	for _, path := range []string{"/", "/v1", "/v1/", "/v2/mutexes", "/v1/mutexes/deploy/acquire/", "/v1/mutexes/a/b/acquire",
		"/healthz/", "/v1/guard/x"} {
		h.get(path).want(http.StatusNotFound, apigen.ProblemCodeNotFound)
		h.post(path, "{}").want(http.StatusNotFound, apigen.ProblemCodeNotFound)
	}
}

func TestNoSuchMethod(t *testing.T) {
	h := newHouse(t, defaultPolicy)
	for _, c := range []struct{ method, path, allow string }{
		{"GET", "/v1/mutexes/deploy/acquire", "POST"},
		{"POST", "/v1/mutexes/deploy", "GET, PUT, DELETE"},
		{"PATCH", "/v1/mutexes/deploy", "GET, PUT, DELETE"},
		{"OPTIONS", "/v1/mutexes/deploy/owner", "DELETE"},
		{"POST", "/healthz", "GET"},
		{"HEAD", "/v1/mutexes/deploy/events", "GET"},
		{"HEAD", "/v1/guard", "POST"},
	} {
		a := h.do(c.method, c.path, "").want(http.StatusMethodNotAllowed, apigen.ProblemCodeMethodNotAllowed)
		for _, method := range strings.Split(c.allow, ", ") {
			if !strings.Contains(a.header.Get("Allow"), method) {
				t.Errorf("%s %s: got Allow %q, want %q", c.method, c.path, a.header.Get("Allow"), c.allow)
			}
		}
	}
}
