package torture_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// impatient makes an outage of etcd show after a second.
const impatient = "--etcd-timeout=1s"

// outage takes the only member of an etcd away; back brings it back.
type outage struct {
	away func(e *harness.Etcd) (back func())
}

var outages = map[string]outage{
	"stopped": {func(e *harness.Etcd) func() {
		e.Members[0].Kill()
		return func() { e.Members[0] = e.Members[0].Again() }
	}},
	"frozen": {func(e *harness.Etcd) func() {
		freeze(e.Members[0])
		return e.Members[0].Resume
	}},
}

// freeze pauses a member, and returns when nothing of it runs any more: on a
// busy machine it goes on for a while after the signal, and answers.
func freeze(m *harness.Member) {
	m.Pause()
	for running(m.PID()) {
		time.Sleep(time.Millisecond)
	}
}

// running reports whether a thread of the process is not stopped. It is false
// where there is no /proc to tell.
func running(pid int) bool {
	stats, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	return slices.ContainsFunc(stats, func(path string) bool {
		text, err := os.ReadFile(path)
		if err != nil {
			return false // it has ended
		}
		// The state comes after the name, which is in brackets and may contain
		// any.
		state := text[bytes.LastIndexByte(text, ')')+2]
		return state != 'T'
	})
}

// Every refusal of an outage is a 503 that says so, and when to come again
// (hashicorp/consul 1139).
func TestT50RefusalsOfAnOutage(t *testing.T) {
	t.Parallel()
	for name, o := range outages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := harness.StartEtcd(t, 1)
			s := openOn(t, e, impatient)
			alice := s.party("alice")
			g := alice.Acquires("deploy", long)
			alices := fmt.Sprintf(`"contender_id":"alice","token":"%s"`, alice.token)
			back := o.away(e)
			for _, r := range []request{
				{method: "POST", target: at + "deploy/acquire"},
				{method: "POST", target: at + "other/acquire"},
				{method: "POST", target: at + "deploy/acquire", body: `{"wait_ms":100}`},
				{method: "POST", target: at + "deploy/guard", body: "{" + alices + "}"},
				{method: "POST", target: at + "deploy/check", body: `{"fencing_token":1}`},
				{method: "GET", target: at + "deploy"},
				{method: "GET", target: at + "deploy/waiters"},
				{method: "GET", target: at + "deploy/history"},
				{method: "PUT", target: at + "other", body: `{}`},
				{method: "DELETE", target: at + "other"},
				{method: "DELETE", target: at + fmt.Sprintf("deploy/owner?fencing_token=%d&reason=x", g.fence)},
				{method: "GET", target: "/readyz"},
			} {
				t.Run(r.method+" "+start(r.target+" "+r.body), func(t *testing.T) {
					t.Parallel()
					isOutage(t, s.sends(r))
				})
			}
			t.Run("POST /v1/guard", func(t *testing.T) {
				t.Parallel()
				r := s.sends(request{method: "POST", target: "/v1/guard", body: `{"ownerships":[{"mutex":"deploy",` + alices + `}]}`}).Want(t, 200)
				outcomes, _ := r.Body["results"].([]any)
				if len(outcomes) != 1 || outcomes[0].(map[string]any)["status"] != "outcome_unknown" {
					t.Errorf("got %s, want the outcome unknown", r.Raw)
				}
			})
			t.Cleanup(func() { // after the above, which are parallel
				back()
				alice.guardsSoon("deploy", g.fence)
			})
		})
	}
}

// isOutage fails unless the answer is a refusal that nobody but etcd is to
// blame for.
func isOutage(t *testing.T, r harness.Reply) {
	t.Helper()
	code := r.Code()
	if code != "outcome_unknown" {
		code = "unavailable"
	}
	refused(t, r, 503, code)
	if r.Header.Get("Retry-After") == "" || r.Int("retry_after_ms") == 0 {
		t.Errorf("got %v %s, want it to say when to come again", r.Header, r.Raw)
	}
}

// guardsSoon guards as soon as it is possible again.
func (p *party) guardsSoon(mutex string, fence int64) {
	p.t.Helper()
	var last harness.Reply
	p.s.eventually(p.name+" guards again", func() bool {
		last = p.calls(mutex, "guard")
		return last.Status != 503
	})
	if last.Want(p.t, 200).Int("fencing_token") != fence {
		p.t.Errorf("got %s, want fencing token %d as before", last.Raw, fence)
	}
}

// A release forgot the lock although its request had failed (etcd-io/etcd
// 22123).
func TestT24ReleaseInAnOutage(t *testing.T) {
	t.Parallel()
	for name, o := range outages {
		for _, id := range []with{nil, {"operation_id": "release-1"}} {
			t.Run(fmt.Sprintf("%s, operation %v", name, id["operation_id"]), func(t *testing.T) {
				t.Parallel()
				e := harness.StartEtcd(t, 1)
				s := openOn(t, e, impatient)
				alice, bob := s.party("alice"), s.party("bob")
				first := alice.Acquires("deploy", long)
				back := o.away(e)
				for range 2 {
					isOutage(t, alice.calls("deploy", "release", id))
				}
				back()
				var last harness.Reply
				s.eventually("etcd is back", func() bool {
					last = alice.calls("deploy", "release", id)
					return last.Status != 503
				})
				last.Want(t, 200)
				// Frozen, etcd may have carried out the first one when it
				// woke; only by the operation's id is it the same call.
				if last.Body["released"] != true && (id != nil || name != "frozen" || last.String("reason") != "already_released") {
					t.Errorf("got %s, want it released by this call", last.Raw)
				}
				s.isIdle("deploy")
				if second := bob.Acquires("deploy"); second.fence <= first.fence {
					t.Errorf("got fencing token %d after %d, want a larger one", second.fence, first.fence)
				}
			})
		}
	}
}
