package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-lock/holdfast/internal/httpapi/apigen"
	"github.com/holdfast-lock/holdfast/internal/service"
	"github.com/holdfast-lock/holdfast/test/contract"
)

// stream is a reader of events: a http.ResponseWriter that can be read while it
// is written.
type stream struct {
	t      *testing.T
	cancel context.CancelFunc
	done   chan struct{}
	header http.Header

	mu     sync.Mutex
	status int    // guarded by mu
	text   []byte // guarded by mu
	broken bool   // guarded by mu; writes fail
}

func (s *stream) Header() http.Header { return s.header }
func (s *stream) Flush()              {}

func (s *stream) WriteHeader(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = status
}

func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken {
		return 0, errors.New("broken pipe")
	}
	s.text = append(s.text, p...)
	return len(p), nil
}

func (s *stream) breaks() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = true
}

// open starts to read the events of a mutex, inside a bubble.
func (h *house) open(t *testing.T, mutex string, lastEventID ...string) *stream {
	ctx, cancel := context.WithCancel(t.Context())
	s := &stream{t: t, cancel: cancel, done: make(chan struct{}), header: http.Header{}}
	req := httptest.NewRequestWithContext(ctx, "GET", "/v1/mutexes/"+mutex+"/events", http.NoBody)
	for _, id := range lastEventID {
		req.Header.Set("Last-Event-ID", id)
	}
	go func() {
		defer close(s.done)
		h.handler.ServeHTTP(s, req)
	}()
	synctest.Wait()
	t.Cleanup(s.close)
	return s
}

func (s *stream) close() {
	s.cancel()
	<-s.done
}

func (s *stream) ended() bool {
	synctest.Wait()
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// seen is an event as it was read.
type seen struct {
	id   string
	name string
	data apigen.Event
}

func (s *stream) String() string {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.text)
}

// events parses what came so far, and holds the data against the contract.
func (s *stream) events() []seen {
	s.t.Helper()
	var all []seen
	for block := range strings.SplitSeq(s.String(), "\n\n") {
		if block == "" || strings.HasPrefix(block, ":") {
			continue
		}
		all = append(all, parseEvent(s.t, block))
	}
	return all
}

func parseEvent(t testing.TB, block string) seen {
	t.Helper()
	var ev seen
	for line := range strings.SplitSeq(block, "\n") {
		field, text, _ := strings.Cut(line, ": ")
		switch field {
		case "id":
			ev.id = text
		case "event":
			ev.name = text
		case "data":
			var raw any
			if err := errors.Join(json.Unmarshal([]byte(text), &ev.data), json.Unmarshal([]byte(text), &raw)); err != nil {
				t.Fatal(err)
			}
			if err := contract.Document().Components.Schemas["Event"].Value.VisitJSON(raw); err != nil {
				t.Errorf("not an event: %v", err)
			}
		default:
			t.Errorf("got line %q", line)
		}
	}
	if ev.name != string(ev.data.Type) {
		t.Errorf("got event %q of type %q", ev.name, ev.data.Type)
	}
	return ev
}

func names(events []seen) []string {
	out := []string{}
	for _, ev := range events {
		out = append(out, ev.name)
	}
	return out
}

func TestEventsInOrder(t *testing.T) {
	inBubble(t, defaultPolicy, func(t *testing.T, h *house) {
		s := h.open(t, "deploy")
		if got := s.String(); !strings.HasPrefix(got, ":") || s.header.Get("Content-Type") != "text/event-stream" {
			t.Fatalf("got %q, %v", got, s.header)
		}
		h.post("/v1/mutexes/deploy/acquire", `{"contender_id":"alice","token":"`+tokenA+`"}`).want(http.StatusOK)
		bob := h.later(t.Context(), "POST", "/v1/mutexes/deploy/acquire", `{"contender_id":"bob","token":"`+tokenB+`","wait_ms":30000}`)
		h.post("/v1/mutexes/deploy/guard", `{"contender_id":"alice","token":"`+tokenA+`"}`).want(http.StatusOK)
		h.post("/v1/mutexes/deploy/release", `{"contender_id":"alice","token":"`+tokenA+`"}`).want(http.StatusOK)
		(<-bob).want(http.StatusOK)
		time.Sleep(20 * time.Second)

		got := s.events()
		want := []string{"acquired", "queued", "guarded", "released", "acquired", "transition", "expired"}
		if !slices.Equal(names(got), want) {
			t.Fatalf("got %v, want %v", names(got), want)
		}
		for i, ev := range got {
			if (ev.id == "") != (ev.name == "transition") {
				t.Errorf("%d: %s has id %q", i, ev.name, ev.id)
			}
			if ev.data.Mutex != "deploy" || value(ev.data.ContenderId) == "" {
				t.Errorf("%d: got %+v", i, ev.data)
			}
		}
		first, second := strings.Split(got[3].id, "."), strings.Split(got[4].id, ".")
		if first[0] != second[0] || first[1] >= second[1] {
			t.Errorf("one write ended one ownership and began another: got ids %s and %s", got[3].id, got[4].id)
		}
	})
}

func TestEventsResume(t *testing.T) {
	inBubble(t, defaultPolicy, func(t *testing.T, h *house) {
		s := h.open(t, "deploy")
		for _, token := range []string{tokenA, tokenB} {
			h.post("/v1/mutexes/deploy/acquire", `{"token":"`+token+`"}`).want(http.StatusOK)
			h.post("/v1/mutexes/deploy/release", `{"token":"`+token+`"}`).want(http.StatusOK)
		}
		all := s.events()
		s.close()
		if len(all) != 4 {
			t.Fatalf("got %v", names(all))
		}
		for i, ev := range all {
			rest := h.open(t, "deploy", ev.id).events()
			if got, want := len(rest), len(all)-i-1; got != want {
				t.Fatalf("after %s: got %v", ev.id, names(rest))
			}
			for j := range rest {
				if rest[j].id != all[i+1+j].id || rest[j].name != all[i+1+j].name {
					t.Errorf("after %s: got %+v, want %+v", ev.id, rest[j], all[i+1+j])
				}
			}
		}
	})
}

func TestEventsReset(t *testing.T) {
	inBubble(t, defaultPolicy, func(t *testing.T, h *house) {
		s := h.open(t, "deploy")
		h.post("/v1/mutexes/deploy/acquire", `{"contender_id":"alice","token":"`+tokenA+`"}`).want(http.StatusOK)
		id := s.events()[0].id
		h.post("/v1/mutexes/deploy/guard", `{"contender_id":"alice","token":"`+tokenA+`"}`).want(http.StatusOK)
		h.store.Compact()
		again := h.open(t, "deploy", id)
		got := again.events()
		if len(got) != 1 || got[0].name != "reset" || got[0].data.Present == nil || got[0].data.Present.Owner.ContenderId != "alice" {
			t.Fatalf("got %+v", got)
		}
		h.post("/v1/mutexes/deploy/guard", `{"contender_id":"alice","token":"`+tokenA+`"}`).want(http.StatusOK)
		if got := names(again.events()); !slices.Equal(got, []string{"reset", "guarded"}) {
			t.Errorf("got %v", got)
		}
	})
}

// The state of a quiet mutex is older than what the store remembers.
func TestEventsOfAQuietMutexBeginWithoutAReset(t *testing.T) {
	inBubble(t, defaultPolicy, func(t *testing.T, h *house) {
		body := `{"contender_id":"alice","token":"` + tokenA + `"}`
		h.post("/v1/mutexes/deploy/acquire", body).want(http.StatusOK)
		h.post("/v1/mutexes/other/acquire", body).want(http.StatusOK)
		h.store.Compact()
		s := h.open(t, "deploy")
		if got := names(s.events()); len(got) != 0 {
			t.Errorf("got %v", got)
		}
		h.post("/v1/mutexes/deploy/guard", body).want(http.StatusOK)
		if got := names(s.events()); !slices.Equal(got, []string{"guarded"}) {
			t.Errorf("got %v", got)
		}
	})
}

func TestEventsOfABrokenLockCarryTheReason(t *testing.T) {
	inBubble(t, defaultPolicy, func(t *testing.T, h *house) {
		owned := decode[apigen.Ownership](h.post("/v1/mutexes/deploy/acquire", "").want(http.StatusOK))
		s := h.open(t, "deploy")
		h.do("DELETE", fmt.Sprintf("/v1/mutexes/deploy/owner?fencing_token=%d&reason=gone%%0Aaway", owned.FencingToken), "").want(http.StatusOK)
		got := s.events()
		if len(got) != 1 || got[0].name != "broken" || value(got[0].data.Reason) != "gone\naway" || value(got[0].data.FencingToken) != owned.FencingToken {
			t.Errorf("got %+v", got)
		}
	})
}

func TestEventsHeartbeat(t *testing.T) {
	inBubble(t, defaultPolicy, func(t *testing.T, h *house) {
		s := h.open(t, "deploy")
		before := len(s.String())
		time.Sleep(heartbeat - time.Millisecond)
		if got := len(s.String()); got != before {
			t.Errorf("got %d bytes too early", got-before)
		}
		time.Sleep(time.Millisecond)
		if got := s.String()[before:]; got != ":\n\n" {
			t.Errorf("got %q", got)
		}
		s.breaks()
		time.Sleep(heartbeat)
		if !s.ended() {
			t.Error("a client that cannot be written to is still served")
		}
	})
}

func TestEventsEndWhenDraining(t *testing.T) {
	inBubble(t, defaultPolicy, func(t *testing.T, h *house) {
		s := h.open(t, "deploy")
		h.svc.Drain()
		if !s.ended() {
			t.Error("the stream goes on")
		}
	})
}

func TestEventsOfNothing(t *testing.T) {
	deny := defaultPolicy
	deny.DenyUndeclared = true
	newHouse(t, deny).get("/v1/mutexes/deploy/events").want(http.StatusNotFound, apigen.ProblemCodeMutexNotDeclared)
}

// The first line is there before anything happens, and what happens after it is
// seen.
func TestEventsOverASocket(t *testing.T) {
	h := newHouse(t, defaultPolicy)
	srv := h.serve()
	for i := range 50 {
		url := fmt.Sprintf("%s/v1/mutexes/deploy-%d", srv.URL, i)
		resp, err := http.Get(url + "/events")
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(resp.Body)
		if !lines.Scan() || !strings.HasPrefix(lines.Text(), ":") {
			t.Fatalf("got %q", lines.Text())
		}
		if _, err := h.svc.Acquire(t.Context(), service.AcquireCall{Mutex: service.Name(fmt.Sprintf("deploy-%d", i))}); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() && !strings.HasPrefix(lines.Text(), "event: ") {
		}
		if lines.Text() != "event: acquired" {
			t.Errorf("got %q", lines.Text())
		}
		resp.Body.Close()
	}
}
