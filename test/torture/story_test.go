package torture_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// generous is what a test grants to something that has no bound of its own: it
// ends a wait that would otherwise be for ever.
const generous = 30 * time.Second

// stage is a running service, and a bystander who looks on.
type stage struct {
	*harness.Replica
	t   *testing.T
	eye *harness.Client
}

// open starts a service with an etcd of its own inside.
func open(t *testing.T, flags ...string) *stage {
	t.Helper()
	return stageOf(t, harness.Start(t, append([]string{"--data-dir=" + harness.Dir(t)}, flags...)...))
}

func stageOf(t *testing.T, r *harness.Replica) *stage {
	return &stage{Replica: r, t: t, eye: r.Client()}
}

// state returns the mutex as it is.
func (s *stage) state(mutex string) harness.Reply {
	s.t.Helper()
	return s.sees("/v1/mutexes/" + mutex)
}

// sees reads, and again where etcd has yet to be found after an outage.
func (s *stage) sees(path string) (r harness.Reply) {
	s.t.Helper()
	s.eventually(path+" is answered", func() bool {
		r = s.eye.Must(s.t, "GET", path, nil)
		return r.Status != 503
	})
	return r.Want(s.t, 200)
}

// owner returns the contender that owns the mutex, "" for nobody.
func (s *stage) owner(mutex string) string {
	s.t.Helper()
	o, _ := s.state(mutex).Body["owner"].(map[string]any)
	id, _ := o["contender_id"].(string)
	return id
}

// waiters returns how many are present in line.
func (s *stage) waiters(mutex string) int {
	s.t.Helper()
	return int(s.state(mutex).Int("waiters"))
}

// place is what everybody can see of a waiter.
type place struct {
	who     string
	present bool
}

// line returns the places in line, those of the absent among them.
func (s *stage) line(mutex string) []place {
	s.t.Helper()
	list, _ := s.sees("/v1/mutexes/" + mutex + "/waiters").Body["waiters"].([]any)
	places := make([]place, len(list))
	for i, w := range list {
		w := w.(map[string]any)
		places[i] = place{w["contender_id"].(string), w["present"].(bool)}
	}
	return places
}

// present returns who is present in line, in order.
func (s *stage) present(mutex string) []string {
	s.t.Helper()
	var who []string
	for _, p := range s.line(mutex) {
		if p.present {
			who = append(who, p.who)
		}
	}
	return who
}

// history returns how the ownerships of the mutex ended, the newest first.
func (s *stage) history(mutex string) []map[string]any {
	s.t.Helper()
	list, _ := s.sees("/v1/mutexes/" + mutex + "/history").Body["history"].([]any)
	past := make([]map[string]any, len(list))
	for i, o := range list {
		past[i] = o.(map[string]any)
	}
	return past
}

// declares stores settings for a mutex.
func (s *stage) declares(mutex string, settings map[string]any) {
	s.t.Helper()
	s.eye.Must(s.t, "PUT", "/v1/mutexes/"+mutex, settings).Want(s.t, 201)
}

// eventually waits until something is so, and returns how long that took.
func (s *stage) eventually(what string, is func() bool) time.Duration {
	s.t.Helper()
	return eventually(s.t, what, is)
}

func eventually(t *testing.T, what string, is func() bool) time.Duration {
	t.Helper()
	begin := time.Now()
	for !is() {
		if time.Since(begin) > generous {
			t.Fatalf("%s: not after %v", what, generous)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return time.Since(begin)
}

// isIdle fails unless nobody owns the mutex and nobody is present in line.
func (s *stage) isIdle(mutex string) {
	s.t.Helper()
	if now := s.state(mutex); now.String("state") != "idle" || now.Int("waiters") != 0 {
		s.t.Errorf("got %s, want it idle and nobody in line", now.Raw)
	}
}

// becomesEmpty waits until no place is left in line, those of the absent
// included, which are kept for a while.
func (s *stage) becomesEmpty(mutex string) {
	s.t.Helper()
	s.eventually("the line is empty", func() bool { return len(s.line(mutex)) == 0 })
}

// seldomLate fails when half of the times are beyond the bound.
func seldomLate(t *testing.T, what string, bound time.Duration, times []time.Duration) {
	t.Helper()
	mid := median(times)
	t.Logf("%s: p50 %v, longest %v, of %d", what, ms(mid), ms(slices.Max(times)), len(times))
	if mid > bound {
		t.Errorf("%s: got p50 %v of %v, want %v at most", what, ms(mid), times, bound)
	}
}

func median(times []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	return sorted[len(sorted)/2]
}

func ms(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }

// refused fails unless the answer is this refusal, told as every refusal is.
func refused(t *testing.T, r harness.Reply, status int, code string) harness.Reply {
	t.Helper()
	if r.Status != status || r.Code() != code {
		t.Errorf("got %d %s, want %d %s", r.Status, r.Raw, status, code)
	}
	if got := r.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("got content type %q, want a problem", got)
	}
	if r.Int("status") != int64(r.Status) || r.String("title") == "" || r.String("type") == "" {
		t.Errorf("got %s, want its status, a type and a title in it", r.Raw)
	}
	return r
}

// reply is the answer to a request that was not made by a harness.Client.
func reply(resp *http.Response, text []byte) harness.Reply {
	r := harness.Reply{Status: resp.StatusCode, Header: resp.Header, Raw: string(text)}
	_ = json.Unmarshal(text, &r.Body) // what is not JSON has no fields
	return r
}
