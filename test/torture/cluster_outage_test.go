package torture_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// All members of etcd are away for a while: nobody who guards loses by that,
// and whoever went silent is freed when its W is over, the outage not counted.
func TestP9EtcdIsAway(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]func(e *harness.Etcd) (back func()){
		"stopped": func(e *harness.Etcd) func() { return frozen(e, 0, 1, 2) },
		"killed":  func(e *harness.Etcd) func() { return killed(e, 0, 1, 2) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			etcdIsAway(t, away)
		})
	}
}

func etcdIsAway(t *testing.T, away func(e *harness.Etcd) (back func())) {
	const (
		ttl, transition = 3 * time.Second, 3 * time.Second
		// Between two heartbeats a replica counts on for so long.
		counted = 2 * time.Second
		// An owner whose replica seems dead for a while is ended by another,
		// and this machine is slow after that.
		bound = 5*time.Second + 2*time.Second
	)
	lasts := sized(8*time.Second, 30*time.Second)
	c := openCluster(t, 3, 3)
	var all, silent holders
	for i := range sized(40, 200) {
		knows := []int{i % 3}
		if i%2 == 0 {
			knows = append(knows, (i+1)%3, (i+2)%3)
		}
		all = append(all, c.keeper(fmt.Sprintf("holder-%d", i), ttl, transition, knows...))
	}
	all.allGuard(t, "at the start")
	for i := range 6 {
		h := c.holder(fmt.Sprintf("silent-%d", i), ttl, transition, i%3)
		silent = append(silent, h)
	}
	for _, h := range silent {
		if !h.guards(t.Context()) {
			t.Fatalf("%s cannot guard: %v", h.name, h.troubles())
		}
	}

	began := time.Now()
	back := away(c.Etcd)
	time.Sleep(time.Until(began.Add(lasts)))
	ended := time.Now()
	back()
	c.AwaitEtcd()
	healed := time.Now()
	ends := make(chan string, len(silent))
	for _, h := range silent {
		go func() {
			sent, _ := h.guarded()
			early := ended.Add(h.window() - began.Sub(sent) - counted)
			ends <- h.endsBetween(early, healed.Add(h.window()+bound))
		}()
	}
	all.allGuard(t, "etcd is back")
	for range silent {
		if why := <-ends; why != "" {
			t.Error(why)
		}
	}
	all.allGuard(t, "later")
}

// endsBetween waits until the holder owns no more, and says what was wrong
// with the time.
func (h *holder) endsBetween(early, late time.Time) string {
	var owned time.Time // when the last check that found it the owner was sent
	client := h.knows[0].http
	for end := late.Add(generous); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		sent := time.Now()
		r, err := client.Call(ctx, "POST", "/v1/mutexes/"+h.mutex+"/check", map[string]any{"fencing_token": h.fence})
		cancel()
		switch free := time.Now(); {
		case err != nil || r.Status != 200: // not back yet
		case r.Body["current"] == true:
			owned = sent
		case free.Before(early):
			return fmt.Sprintf("%s ended %v early", h.name, early.Sub(free))
		case owned.After(late):
			return fmt.Sprintf("%s ended %v late", h.name, owned.Sub(late))
		default:
			return ""
		}
	}
	return h.name + ": it still owns, or there is no answer"
}
