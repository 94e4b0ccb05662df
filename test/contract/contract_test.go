package contract_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdfast-lock/holdfast/test/contract"
)

func TestCheck(t *testing.T) {
	const locked = `{"type":"urn:holdfast:problem:mutex_locked","title":"Mutex is locked","status":423,"code":"mutex_locked","retry_after_ms":0}`
	for _, tt := range []struct {
		name, method, path  string
		status              int
		kind, body, misfits string // what the misfit says; "" = none
	}{
		{"an answer", "POST", "/v1/mutexes/m/check", 200, "application/json", `{"current":false,"fencing_token":null}`, ""},
		{"a refusal", "POST", "/v1/mutexes/m/acquire", 423, "application/problem+json", locked, ""},
		{"a missing field", "POST", "/v1/mutexes/m/check", 200, "application/json", `{"fencing_token":null}`, "current"},
		{"a field of another type", "POST", "/v1/mutexes/m/check", 200, "application/json", `{"current":"no","fencing_token":null}`, "current"},
		{"a status that is not documented", "POST", "/v1/mutexes/m/check", 201, "application/json", `{}`, "status"},
		{"a code that is not documented", "POST", "/v1/mutexes/m/check", 400, "application/problem+json",
			strings.ReplaceAll(locked, "423", "400"), "does not document"},
		{"a refusal that is no problem", "POST", "/v1/mutexes/m/acquire", 423, "application/json", locked, "Content-Type"},
		{"another status in the body", "POST", "/v1/mutexes/m/acquire", 423, "application/problem+json",
			strings.ReplaceAll(locked, "423", "409"), "status 409"},
		{"no such route", "GET", "/v2", 404, "text/plain", "404 page not found", "Content-Type"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req := httptest.NewRequest(tt.method, tt.path, http.NoBody)
			h := http.Header{"Content-Type": {tt.kind}}
			if strings.Contains(tt.body, "retry_after_ms") {
				h.Set("Retry-After", "0")
			}
			err := contract.Check(req, contract.Answer{Status: tt.status, Header: h, Body: []byte(tt.body)})
			if tt.misfits == "" && err != nil || tt.misfits != "" && (err == nil || !strings.Contains(err.Error(), tt.misfits)) {
				t.Errorf("got %v, want one that says %q", err, tt.misfits)
			}
		})
	}
}
