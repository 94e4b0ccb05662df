package httpapi

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

func contains(text, want string) bool { return strings.Contains(text, want) }

func TestOneEventPerRequestWithoutSecrets(t *testing.T) {
	h := newHouse(t, defaultPolicy)
	h.post("/v1/mutexes/deploy/acquire", `{"token":"`+tokenA+`","metadata":{"k":"in-the-body"}}`).want(http.StatusOK)
	h.post("/v1/mutexes/deploy/guard", `{"token":"`+tokenB+`"}`).want(http.StatusConflict)
	h.post("/v1/mutexes/deploy/guard", `{"token":"`+tokenB+`\u0007"}`).want(http.StatusBadRequest)
	h.get("/nowhere").want(http.StatusNotFound)

	log := strings.TrimSpace(h.log.String())
	for _, secret := range []string{tokenA, tokenB, "in-the-body"} {
		if contains(log, secret) {
			t.Errorf("the log has %q: %s", secret, log)
		}
	}
	want := []struct {
		route, mutex, code string
		status             float64
	}{
		{"/v1/mutexes/:mutex/acquire", "deploy", "", 200},
		{"/v1/mutexes/:mutex/guard", "deploy", "not_owner", 409},
		{"/v1/mutexes/:mutex/guard", "deploy", "invalid_argument", 400},
		{"", "", "not_found", 404},
	}
	lines := strings.Split(log, "\n")
	if len(lines) != len(want) {
		t.Fatalf("got %d events: %s", len(lines), log)
	}
	for i, line := range lines {
		var got map[string]any
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatal(err)
		}
		text := func(key string) string { s, _ := got[key].(string); return s }
		if text("route") != want[i].route || text("mutex") != want[i].mutex || text("code") != want[i].code ||
			got["status"] != want[i].status || text("method") == "" || got["duration_ms"] == nil {
			t.Errorf("got %s, want %+v", line, want[i])
		}
	}
}
