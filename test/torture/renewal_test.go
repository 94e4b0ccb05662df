package torture_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// An ownership that had expired was renewed (leandromoreira/redlock-rb 36).
func TestT20GuardAfterTheEnd(t *testing.T) {
	t.Parallel()
	s := open(t)
	alice := s.party("alice")
	g := alice.Acquires("deploy", windows(300*time.Millisecond, 200*time.Millisecond))
	g.over(500 * time.Millisecond)
	r := refused(t, alice.calls("deploy", "guard"), 409, "not_owner")
	if r.String("ended") != "expired" || r.Body["holder"] != nil {
		t.Errorf("got %s, want it expired and nobody's", r.Raw)
	}
	s.isIdle("deploy")
	if next := alice.anew().Acquires("deploy"); next.fence <= g.fence {
		t.Errorf("got fencing token %d after %d, want a larger one", next.fence, g.fence)
	}
}

// Whoever renewed was not checked to be the owner (redisson/redisson 597).
func TestT21GuardOfAnother(t *testing.T) {
	t.Parallel()
	s := open(t)
	alice, bob := s.party("alice"), s.party("bob")
	first := alice.Acquires("deploy", long)
	alice.Releases("deploy")
	second := bob.Acquires("deploy", long)
	before := s.state("deploy")

	aliceWithBobs, bobWithAlices := s.party("alice"), s.party("bob")
	aliceWithBobs.token, bobWithAlices.token = bob.token, alice.token
	for name, c := range map[string]struct {
		p     *party
		ended string
		fence int64
	}{
		"the owner before":             {alice, "released", first.fence},
		"a stranger":                   {s.party("carol"), "unknown", 0},
		"the owner's name alone":       {bobWithAlices, "unknown", 0},
		"the owner's token alone":      {aliceWithBobs, "unknown", 0},
		"the owner's token, no name":   {&party{s: s, t: t, http: s.Client(), token: bob.token}, "unknown", 0},
		"the owner with another token": {bob.anew(), "unknown", 0},
	} {
		r := refused(t, c.p.calls("deploy", "guard", with{"token": c.p.token}), 409, "not_owner")
		holder, _ := r.Body["holder"].(map[string]any)
		if r.String("ended") != c.ended || r.Int("fencing_token") != c.fence || holder["contender_id"] != "bob" {
			t.Errorf("%s: got %s, want ended %s of fencing token %d, and bob as holder", name, r.Raw, c.ended, c.fence)
		}
	}
	after := s.state("deploy")
	if got, want := after.Int("revision"), before.Int("revision"); got != want {
		t.Errorf("got revision %d, want %d: nothing has changed", got, want)
	}
	if renewed := bob.Guards("deploy"); renewed.fence != second.fence {
		t.Errorf("got fencing token %d, want bob's own %d", renewed.fence, second.fence)
	}
}

// A heartbeat in flight revived a lock that had been released
// (awslabs/amazon-dynamodb-lock-client 1).
func TestT22GuardRacesRelease(t *testing.T) {
	t.Parallel()
	const mutexes, rounds = 8, 250
	s := open(t)
	var before, after int
	races := make(chan race, mutexes)
	for m := range mutexes {
		go func() { races <- raceGuards(s, fmt.Sprintf("deploy-%d", m), rounds) }()
	}
	for range mutexes {
		r := <-races
		if r.err != nil {
			t.Error(r.err)
		}
		before, after = before+r.before, after+r.after
	}
	t.Logf("guarded before the release %d times, refused after it %d times", before, after)
	if before+after != mutexes*rounds && !t.Failed() {
		t.Errorf("got %d rounds, want %d", before+after, mutexes*rounds)
	}
}

// race is how many guards came before the release, and how many after.
type race struct {
	before, after int
	err           error
}

func raceGuards(s *stage, mutex string, rounds int) (r race) {
	owner, guard := s.Client(), s.Client()
	path := "/v1/mutexes/" + mutex
	for round := range rounds {
		body := map[string]any{"token": fmt.Sprintf("token-of-round-%06d", round)}
		if r.err = status(owner, "POST", path+"/acquire", body, 200); r.err != nil {
			return r
		}
		guarded := make(chan error, 1)
		go func() { guarded <- status(guard, "POST", path+"/guard", body, 200) }()
		if r.err = status(owner, "POST", path+"/release", body, 200); r.err != nil {
			return r
		}
		// What the guard does from now on must not matter.
		if r.err = isFree(owner, path); r.err != nil {
			return r
		}
		var other *unexpected
		switch err := <-guarded; {
		case err == nil:
			r.before++
		case errors.As(err, &other) && other.got.Code() == "not_owner" && other.got.String("ended") == "released":
			r.after++
		default:
			r.err = err
			return r
		}
		if r.err = isFree(owner, path); r.err != nil {
			return r
		}
	}
	return r
}

// unexpected is an answer with another status.
type unexpected struct{ got harness.Reply }

func (u *unexpected) Error() string { return fmt.Sprintf("got %d %s", u.got.Status, u.got.Raw) }

// status makes a request whose answer must have this status. It is for
// goroutines, which must not end the test.
func status(c *harness.Client, method, path string, body any, want int) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := c.Call(ctx, method, path, body)
	if err == nil && r.Status != want {
		err = &unexpected{r}
	}
	return err
}

func isFree(c *harness.Client, path string) error {
	r, err := c.Call(context.Background(), "GET", path, nil)
	if err == nil && (r.Status != 200 || r.String("state") != "idle") {
		err = fmt.Errorf("after the release: %w, want it idle", &unexpected{r})
	}
	return err
}

// A node that was slow unlocked the lock of the next holder
// (lukas-krecan/ShedLock 74).
func TestT23LateReleaseOfAnother(t *testing.T) {
	t.Parallel()
	s := open(t)
	alice, bob, carol := s.party("alice"), s.party("bob"), s.party("carol")
	first := alice.Acquires("deploy", windows(300*time.Millisecond, 0))
	second := bob.Waits("deploy", generous, long).Owns()
	r := refused(t, alice.calls("deploy", "release"), 409, "not_owner")
	holder, _ := r.Body["holder"].(map[string]any)
	if r.String("ended") != "expired" || r.Int("fencing_token") != first.fence || holder["contender_id"] != "bob" {
		t.Errorf("got %s, want alice's ownership expired, and bob as holder", r.Raw)
	}
	carol.isLocked("deploy")
	if got := bob.Guards("deploy"); got.fence != second.fence {
		t.Errorf("got fencing token %d, want bob's %d", got.fence, second.fence)
	}
	bob.Releases("deploy")
}

// A background renewer could not be stopped (etcd-io/etcd 17470).
func TestT25HoldIsBounded(t *testing.T) {
	t.Parallel()
	const most = 2 * time.Second
	s := open(t)
	alice, bob := s.party("alice"), s.party("bob")
	s.declares("deploy", map[string]any{"max_hold_ms": most.Milliseconds(), "ttl_ms": 1000, "transition_ms": 500})
	first := alice.Acquires("deploy")
	next := bob.Waits("deploy", generous)

	var last harness.Reply
	s.eventually("a guard is refused", func() bool {
		sent := time.Now()
		last = alice.calls("deploy", "guard")
		if last.Status != 200 {
			return true
		}
		if age := sent.Sub(first.got); age > most+time.Second {
			t.Fatalf("guarded at the age of %v", age)
		}
		left := time.Duration(last.Int("transition_remaining_ms")) * time.Millisecond
		if end := sent.Add(left); end.After(first.got.Add(most + 100*time.Millisecond)) {
			t.Fatalf("got windows until the age of %v, want %v at most", end.Sub(first.got), most)
		}
		ageIsShown(s, first)
		return false
	})
	refused(t, last, 409, "max_hold_reached")
	refused(t, alice.calls("deploy", "acquire"), 409, "token_spent")
	if age := next.Owns().got.Sub(first.sent); age < most {
		t.Errorf("ended at the age of %v, want %v at least", age, most)
	}
}

// ageIsShown fails when the state shows another age of the ownership than it
// can have.
func ageIsShown(s *stage, g grant) {
	s.t.Helper()
	ageIsAbout(s, g, 0)
}

// ageIsAbout is ageIsShown of a replica that may have seen the ownership so
// much later than its owner was told of it.
func ageIsAbout(s *stage, g grant, later time.Duration) {
	s.t.Helper()
	asked := time.Now()
	owner, _ := s.state(g.mutex).Body["owner"].(map[string]any)
	if owner["contender_id"] != g.by.name {
		return // it has just ended
	}
	shown, _ := owner["held_ms"].(float64)
	held := time.Duration(int64(shown)) * time.Millisecond
	least, most := asked.Sub(g.got)-later-time.Millisecond, time.Since(g.sent)+time.Millisecond
	if held < least || held > most {
		s.t.Fatalf("got held_ms %v, want it between %v and %v", held, least, most)
	}
}
