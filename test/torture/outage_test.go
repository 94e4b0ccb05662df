package torture_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// etcdTimeout makes an outage of etcd show soon. A replica that starts on a busy
// machine has no longer for its first look at etcd, either.
const etcdTimeout = 2 * time.Second

var impatient = "--etcd-timeout=" + etcdTimeout.String()

// outage takes so many members of an etcd away that the rest can do nothing;
// back brings them back.
type outage struct {
	members int
	late    bool // what it was asked for meanwhile may be carried out afterwards
	away    func(e *harness.Etcd) (back func())
}

var outages = map[string]outage{
	"stopped":         {1, false, func(e *harness.Etcd) func() { return killed(e, 0) }},
	"frozen":          {1, true, func(e *harness.Etcd) func() { return frozen(e, 0) }},
	"two stopped":     {3, true, func(e *harness.Etcd) func() { return killed(e, twoOf(e, true)...) }},
	"two frozen":      {3, true, func(e *harness.Etcd) func() { return frozen(e, twoOf(e, true)...) }},
	"the leader left": {3, true, func(e *harness.Etcd) func() { return frozen(e, twoOf(e, false)...) }},
}

// startsEtcd starts as many members as the outage needs.
func (o outage) startsEtcd(t *testing.T) *harness.Etcd {
	t.Helper()
	return harness.StartCluster(t, harness.ClusterConfig{Members: o.members}).Etcd
}

// inTurn is startsEtcd for tests without parallel subtests.
func (o outage) inTurn(t *testing.T) *harness.Etcd {
	t.Helper()
	if o.members > 1 {
		takesTurn(t, small)
	}
	return o.startsEtcd(t)
}

func killed(e *harness.Etcd, members ...int) (back func()) {
	for _, i := range members {
		e.Members[i].Kill()
	}
	return func() {
		for _, i := range members {
			e.Members[i] = e.Members[i].Again()
		}
	}
}

func frozen(e *harness.Etcd, members ...int) (back func()) {
	for _, i := range members {
		e.Members[i].Pause()
	}
	return func() {
		for _, i := range members {
			e.Members[i].Resume()
		}
	}
}

// twoOf returns two of three members, which are the majority: with the leader,
// or without it.
func twoOf(e *harness.Etcd, withLeader bool) []int {
	leader := e.Leader()
	first, second := (leader+1)%3, (leader+2)%3
	if withLeader {
		first = leader
	}
	return []int{first, second}
}

// Every refusal of an outage is a 503 that says so, and when to come again
// (hashicorp/consul 1139).
func TestT50RefusalsOfAnOutage(t *testing.T) {
	t.Parallel()
	for name, o := range outages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := o.startsEtcd(t)
			s := openOn(t, e, impatient)
			alice := s.party("alice")
			g := alice.Acquires("deploy", long)
			alices := fmt.Sprintf(`"contender_id":"alice","token":"%s"`, alice.token)
			back := o.away(e)
			// In a group of their own, so that all have ended before it is over.
			t.Run("refused", func(t *testing.T) { refusedInAnOutage(t, s, alices, g.fence) })
			back()
			alice.guardsSoon("deploy", g.fence)
		})
	}
}

func refusedInAnOutage(t *testing.T, s *stage, alices string, fence int64) {
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
		{method: "DELETE", target: at + fmt.Sprintf("deploy/owner?fencing_token=%d&reason=x", fence)},
		{method: "GET", target: "/readyz"},
	} {
		t.Run(r.method+" "+start(r.target+" "+r.body), func(t *testing.T) {
			t.Parallel()
			sent := time.Now()
			isOutage(t, stageOf(t, s.Replica).sends(r))
			answersInTime(t, sent)
		})
	}
	t.Run("POST /v1/guard", func(t *testing.T) {
		t.Parallel()
		sent := time.Now()
		r := stageOf(t, s.Replica).sends(request{method: "POST", target: "/v1/guard", body: `{"ownerships":[{"mutex":"deploy",` + alices + `}]}`}).Want(t, 200)
		answersInTime(t, sent)
		outcomes, _ := r.Body["results"].([]any)
		if len(outcomes) != 1 || outcomes[0].(map[string]any)["status"] != "outcome_unknown" {
			t.Errorf("got %s, want the outcome unknown", r.Raw)
		}
	})
}

// answersInTime fails when an answer took much longer than --etcd-timeout.
func answersInTime(t *testing.T, sent time.Time) {
	t.Helper()
	if took := time.Since(sent); took > 10*time.Second {
		t.Errorf("answered after %v", took)
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
				e := o.inTurn(t)
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
				// Etcd may have carried out the first one afterwards; only by
				// the operation's id is it the same call.
				if last.Body["released"] != true && (id != nil || !o.late || last.String("reason") != "already_released") {
					t.Errorf("got %s, want it released by this call", last.Raw)
				}
				s.isIdle("deploy")
				if second, _ := bob.acquiresSoon("deploy"); second.fence <= first.fence {
					t.Errorf("got fencing token %d after %d, want a larger one", second.fence, first.fence)
				}
			})
		}
	}
}
