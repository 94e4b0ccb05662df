package operate_test

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// stream is an open stream of a mutex's events.
type stream struct {
	t    *testing.T
	mu   sync.Mutex
	seen []string // guarded by mu; "event data"
	id   string   // guarded by mu; of the last event
	over bool     // guarded by mu
}

// listen opens a stream; it ends with the test. lastID resumes one.
func listen(t *testing.T, r *harness.Replica, mutex, lastID string) *stream {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URL()+"/v1/mutexes/"+mutex+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	s, opened, done := &stream{t: t}, make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		resp, err := http.DefaultClient.Do(req)
		close(opened)
		if err != nil {
			t.Errorf("events of %s: %v", mutex, err)
			return
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("events of %s: got status %d", mutex, resp.StatusCode)
		}
		s.read(bufio.NewScanner(resp.Body))
	}()
	<-opened
	return s
}

func (s *stream) read(lines *bufio.Scanner) {
	var event string
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ": ")
		s.mu.Lock()
		switch field {
		case "id":
			s.id = value
		case "event":
			event = value
		case "data":
			s.seen = append(s.seen, event+" "+value)
		}
		s.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
}

// has reports whether an event came with all of these words.
func (s *stream) has(words ...string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, event := range s.seen {
		all := true
		for _, w := range words {
			all = all && strings.Contains(event, w)
		}
		if all {
			return true
		}
	}
	return false
}

// tells waits for such an event.
func (s *stream) tells(words ...string) {
	s.t.Helper()
	eventually(s.t, "an event with "+strings.Join(words, ", "), func() bool {
		if s.has(words...) {
			return true
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.over {
			s.t.Fatalf("the stream ended; it told %q", s.seen)
		}
		return false
	})
}

func (s *stream) lastID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}
