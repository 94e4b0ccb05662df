package torture_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// request is one as it goes over the wire.
type request struct {
	op     string // of the contract; "" for none of its
	method string
	target string
	body   string
	header string // name: value
	status int
	code   string
}

// sends makes a request as it is.
func (s *stage) sends(r request) harness.Reply {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), r.method, s.URL()+r.target, strings.NewReader(r.body))
	if err != nil {
		s.t.Fatal(err)
	}
	if name, value, ok := strings.Cut(r.header, ": "); ok {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatalf("%s %s: %v", r.method, r.target, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatalf("%s %s: %v", r.method, r.target, err)
	}
	return reply(resp, text)
}

const (
	aToken  = `"token":"token-of-nobody-000"`
	at      = "/v1/mutexes/"
	tooLong = 1<<20 + 1
)

// An unknown session, and in the end every error, was answered with a 500
// (hashicorp/consul 1139).
func TestT50RefusalsOfRequests(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.party("bob").Acquires("held", long)
	s.declares("declared", map[string]any{})
	tells := make(provoked)
	for _, r := range append(malformed(), inOrder()...) {
		t.Run(r.method+" "+start(r.target+" "+r.body), func(t *testing.T) {
			refused(t, stageOf(t, s.Replica).sends(r), r.status, r.code)
		})
		tells.add(r.op, r.status, r.code)
	}
	tells.addAll(refusalsInLine(t, s))
	tells.addAll(refusalsOfOwners(t, s))
	tells.addAll(refusalsOfStrangers(t, open(t, "--undeclared=deny")))
	tells.areAllOf(t, s)
}

// start is enough of a text to name a test by.
func start(text string) string { return text[:min(len(text), 60)] }

// malformed are requests that the contract does not allow.
func malformed() []request {
	blank := strings.Repeat(" ", tooLong)
	bad := func(op, method, target, body string) request {
		return request{op: op, method: method, target: target, body: body, status: 400, code: "invalid_argument"}
	}
	big := func(op, method, target string) request {
		return request{op: op, method: method, target: target, body: "{}" + blank, status: 413, code: "body_too_large"}
	}
	list := []request{
		bad("acquireMutex", "POST", at+"deploy/acquire", `{`),
		bad("acquireMutex", "POST", at+"deploy/acquire", `{} {}`),
		bad("acquireMutex", "POST", at+"deploy/acquire", `[]`),
		bad("acquireMutex", "POST", at+"deploy/acquire", `null`),
		bad("acquireMutex", "POST", at+"deploy/acquire", `{"ttl":1000}`),
		bad("acquireMutex", "POST", at+"deploy/acquire", `{"TTL_MS":1000}`),
		bad("acquireMutex", "POST", at+"deploy/acquire", `{"ttl_ms":99}`),
		bad("acquireMutex", "POST", at+"deploy/acquire", `{"ttl_ms":1000.5}`),
		bad("acquireMutex", "POST", at+"deploy/acquire", `{"ttl_ms":"1000"}`),
		bad("acquireMutex", "POST", at+"deploy/acquire", `{"ttl_ms":1e30}`),
		bad("acquireMutex", "POST", at+"deploy/acquire", `{"transition_ms":-1}`),
		bad("acquireMutex", "POST", at+"deploy/acquire", `{"wait_ms":-1}`),
		bad("acquireMutex", "POST", at+"deploy/acquire", `{"token":"short"}`),
		bad("acquireMutex", "POST", at+"deploy/acquire", `{"token":"`+strings.Repeat("x", 129)+`"}`),
		bad("acquireMutex", "POST", at+"deploy/acquire", `{"token":"with a line\nbreak in it"}`),
		bad("acquireMutex", "POST", at+"deploy/acquire", `{"contender_id":""}`),
		bad("acquireMutex", "POST", at+"deploy/acquire", `{"contender_id":"\u0000"}`),
		bad("acquireMutex", "POST", at+"deploy/acquire", `{"metadata":{"a":1}}`),
		bad("acquireMutex", "POST", at+"deploy/acquire", `{"metadata":{"a":"`+strings.Repeat("x", 2048)+`"}}`),
		bad("acquireMutex", "POST", at+"deploy/acquire", "{\"contender_id\":\"\xff\"}"),
		bad("acquireMutex", "POST", at+"deploy/acquire?wait_ms=1000", `{}`),
		bad("acquireMutex", "POST", at+"-deploy/acquire", `{}`),
		bad("acquireMutex", "POST", at+"a%2Fb/acquire", `{}`),
		bad("acquireMutex", "POST", at+"%00/acquire", `{}`),
		bad("acquireMutex", "POST", at+"%2E%2E/acquire", `{}`),
		bad("acquireMutex", "POST", at+strings.Repeat("x", 201)+"/acquire", `{}`),
		bad("acquireMutex", "POST", at+"declared/acquire", `{"ttl_ms":86400000}`),
		bad("acquireMutex", "POST", at+"declared/acquire", `{"transition_ms":3600000}`),
		big("acquireMutex", "POST", at+"deploy/acquire"),
		bad("guardMutex", "POST", at+"deploy/guard", ``),
		bad("guardMutex", "POST", at+"deploy/guard", `{}`),
		big("guardMutex", "POST", at+"deploy/guard"),
		bad("releaseMutex", "POST", at+"deploy/release", `{}`),
		bad("releaseMutex", "POST", at+"deploy/release", `{`+aToken+`,"operation_id":""}`),
		big("releaseMutex", "POST", at+"deploy/release"),
		bad("checkFencingToken", "POST", at+"deploy/check", `{}`),
		bad("checkFencingToken", "POST", at+"deploy/check", `{"fencing_token":0}`),
		bad("checkFencingToken", "POST", at+"deploy/check", `{"fencing_token":9007199254740992}`),
		big("checkFencingToken", "POST", at+"deploy/check"),
		bad("guardMutexes", "POST", "/v1/guard", `{"ownerships":[]}`),
		bad("guardMutexes", "POST", "/v1/guard", `{"ownerships":[{`+aToken+`}]}`),
		bad("guardMutexes", "POST", "/v1/guard", `{"ownerships":[`+strings.Repeat(`{"mutex":"deploy",`+aToken+`},`, 1000)+`{"mutex":"deploy",`+aToken+`}]}`),
		big("guardMutexes", "POST", "/v1/guard"),
		bad("declareMutex", "PUT", at+"deploy", `{"ttl_ms":0}`),
		bad("declareMutex", "PUT", at+"deploy", `{"contenders":["*"]}`),
		bad("declareMutex", "PUT", at+"deploy", `{"labels":{"a=b":""}}`),
		bad("declareMutex", "PUT", at+"deploy", `{"name":"deploy"}`),
		big("declareMutex", "PUT", at+"deploy"),
		bad("removeMutex", "DELETE", at+"declared?force=perhaps", ``),
		bad("getMutex", "GET", at+"deploy?revision=-1", ``),
		bad("getMutex", "GET", at+"deploy?revision=1&revision=2", ``),
		bad("getMutex", "GET", at+"%20", ``),
		bad("listWaiters", "GET", at+"deploy/waiters?page_size=1", ``),
		bad("listHistory", "GET", at+"-/history", ``),
		bad("breakOwnership", "DELETE", at+"deploy/owner", ``),
		bad("breakOwnership", "DELETE", at+"deploy/owner?fencing_token=1", ``),
		bad("breakOwnership", "DELETE", at+"deploy/owner?reason=gone", ``),
		bad("listMutexes", "GET", "/v1/mutexes?page_size=0", ``),
		bad("listMutexes", "GET", "/v1/mutexes?page_token=%00", ``),
		bad("listMutexes", "GET", "/v1/mutexes?label=team", ``),
		bad("listMutexes", "GET", "/v1/mutexes?state=held", ``),
		bad("listMutexes", "GET", "/v1/mutexes?%zz", ``),
	}
	headers := []request{
		{op: "declareMutex", method: "PUT", target: at + "deploy", header: "If-None-Match: x"},
		{op: "declareMutex", method: "PUT", target: at + "deploy", header: "If-Match: *"},
		{op: "removeMutex", method: "DELETE", target: at + "declared", header: "If-Match: 1"},
		{op: "streamEvents", method: "GET", target: at + "deploy/events", header: "Last-Event-ID: x"},
	}
	for _, r := range headers {
		r.status, r.code = 400, "invalid_argument"
		list = append(list, r)
	}
	return list
}

// inOrder are requests that are in order, and refused.
func inOrder() []request {
	return []request{
		{"", "GET", "/", "", "", 404, "not_found"},
		{"", "GET", at + "deploy/", "", "", 404, "not_found"},
		{"", "POST", at + "deploy/owner/acquire", "{}", "", 404, "not_found"},
		{"", "GET", "/v2/mutexes", "", "", 404, "not_found"},
		{"", "GET", at + "deploy/acquire", "", "", 405, "method_not_allowed"},
		{"", "PATCH", at + "deploy", "{}", "", 405, "method_not_allowed"},
		{"", "OPTIONS", at + "deploy", "", "", 405, "method_not_allowed"},
		{"acquireMutex", "POST", at + "held/acquire", "", "", 423, "mutex_locked"},
		{"acquireMutex", "POST", at + "held/acquire", `{"wait_ms":50}`, "", 423, "mutex_locked"},
		{"guardMutex", "POST", at + "held/guard", `{` + aToken + `}`, "", 409, "not_owner"},
		{"guardMutex", "POST", at + "nobodys/guard", `{` + aToken + `}`, "", 409, "not_owner"},
		{"releaseMutex", "POST", at + "held/release", `{` + aToken + `}`, "", 409, "not_owner"},
		{"releaseMutex", "POST", at + "nobodys/release", `{` + aToken + `}`, "", 409, "not_owner"},
		{"breakOwnership", "DELETE", at + "held/owner?fencing_token=1&reason=x", "", "", 412, "precondition_failed"},
		{"breakOwnership", "DELETE", at + "nobodys/owner?fencing_token=1&reason=x", "", "", 412, "precondition_failed"},
		{"declareMutex", "PUT", at + "declared", "{}", "If-None-Match: *", 412, "precondition_failed"},
		{"declareMutex", "PUT", at + "declared", "{}", `If-Match: "1"`, 412, "precondition_failed"},
		{"declareMutex", "PUT", at + "nobodys", "{}", `If-Match: "1"`, 412, "precondition_failed"},
		{"removeMutex", "DELETE", at + "declared", "", `If-Match: "1"`, 412, "precondition_failed"},
		{"removeMutex", "DELETE", at + "nobodys", "", "", 404, "mutex_not_declared"},
	}
}

// refusalsInLine are those that waiters get.
func refusalsInLine(t *testing.T, s *stage) provoked {
	s.declares("line", map[string]any{"max_waiters": 1})
	s.party("alice").Acquires("line")
	bob := s.party("bob")
	first := bob.Waits("line", generous)
	refused(t, s.party("carol").calls("line", "acquire", with{"wait_ms": 1000}), 429, "too_many_waiters")
	second := bob.Asks("line", generous)
	first.IsRefused(409, "superseded")
	bob.calls("line", "release").Want(t, 200)
	second.IsRefused(409, "left_line")
	return provoked{
		{"acquireMutex", 429, "too_many_waiters"}: true,
		{"acquireMutex", 409, "superseded"}:       true,
		{"acquireMutex", 409, "left_line"}:        true,
	}
}

// refusalsOfOwners are those that owners get, and those because of them.
func refusalsOfOwners(t *testing.T, s *stage) provoked {
	s.declares("own", map[string]any{})
	alice, bob := s.party("alice"), s.party("bob")
	alice.Acquires("own")
	alice.Releases("own")
	refused(t, alice.calls("own", "acquire"), 409, "token_spent")

	got := bob.Acquires("own").got
	refused(t, s.eye.Must(t, "DELETE", at+"own", nil), 409, "mutex_held")
	// An ownership that has outlived its declared age without having ended:
	// the age was declared while it lasted.
	time.Sleep(time.Until(got.Add(2 * time.Millisecond)))
	s.eye.Must(t, "PUT", at+"own", map[string]any{"max_hold_ms": 1}).Want(t, 200)
	refused(t, bob.calls("own", "acquire"), 409, "max_hold_reached")
	refused(t, bob.calls("own", "guard"), 409, "max_hold_reached")
	return provoked{
		{"acquireMutex", 409, "token_spent"}:      true,
		{"removeMutex", 409, "mutex_held"}:        true,
		{"acquireMutex", 409, "max_hold_reached"}: true,
		{"guardMutex", 409, "max_hold_reached"}:   true,
	}
}

// refusalsOfStrangers are those of a service that allows no undeclared names.
func refusalsOfStrangers(t *testing.T, s *stage) provoked {
	tells := make(provoked)
	for _, r := range []request{
		{op: "acquireMutex", method: "POST", target: at + "deploy/acquire"},
		{op: "checkFencingToken", method: "POST", target: at + "deploy/check", body: `{"fencing_token":1}`},
		{op: "getMutex", method: "GET", target: at + "deploy"},
		{op: "listWaiters", method: "GET", target: at + "deploy/waiters"},
		{op: "listHistory", method: "GET", target: at + "deploy/history"},
		{op: "streamEvents", method: "GET", target: at + "deploy/events"},
		{op: "breakOwnership", method: "DELETE", target: at + "deploy/owner?fencing_token=1&reason=x"},
		{op: "removeMutex", method: "DELETE", target: at + "deploy"},
	} {
		refused(t, s.sends(r), 404, "mutex_not_declared")
		tells.add(r.op, 404, "mutex_not_declared")
	}
	return tells
}

// tell is a refusal of an operation.
type tell struct {
	op     string
	status int
	code   string
}

// provoked are the refusals that were seen.
type provoked map[tell]bool

func (p provoked) add(op string, status int, code string) { p[tell{op, status, code}] = true }

func (p provoked) addAll(more provoked) {
	for k := range more {
		p[k] = true
	}
}

// areAllOf fails unless they are what the contract documents for mutexes,
// nothing less and nothing more. Those of the server's own are not among them,
// nor those of a server that wants to know who calls.
func (p provoked) areAllOf(t *testing.T, s *stage) {
	t.Helper()
	text := s.eye.Must(t, "GET", "/openapi.json", nil).Want(t, 200).Raw
	doc, err := openapi3.NewLoader().LoadFromData([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	documented := make(provoked)
	for path, item := range doc.Paths.Map() {
		if path != "/v1/guard" && !strings.HasPrefix(path, "/v1/mutexes") {
			continue
		}
		for _, op := range item.Operations() {
			documented.addResponses(op)
		}
	}
	for k := range documented {
		if !p[k] {
			t.Errorf("%s can be refused with %d %s, which was not provoked", k.op, k.status, k.code)
		}
	}
	for k := range p {
		if k.op != "" && !documented[k] {
			t.Errorf("%s was refused with %d %s, which is not documented", k.op, k.status, k.code)
		}
	}
}

// addResponses adds the refusals that the contract documents; their examples
// are called after their codes.
func (p provoked) addResponses(op *openapi3.Operation) {
	for _, status := range []int{400, 404, 409, 412, 413, 423, 429} {
		r := op.Responses.Status(status)
		if r == nil {
			continue
		}
		for code := range r.Value.Content.Get("application/problem+json").Examples {
			p.add(op.OperationID, status, code)
		}
	}
}
