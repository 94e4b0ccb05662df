package operate_test

import (
	"bufio"
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// stream is a mutex's events as a client has them that resumes when a stream
// ends, as browsers do.
type stream struct {
	t    *testing.T
	url  string
	open chan struct{} // closed when the first answer has begun

	mu   sync.Mutex
	seen []string // guarded by mu; "event data"
	id   string   // guarded by mu; of the last event
}

// listen begins to follow a mutex, after an event where there is an id. It ends
// with the test.
func listen(t *testing.T, r *harness.Replica, mutex, id string) *stream {
	t.Helper()
	s := &stream{t: t, url: r.URL() + "/v1/mutexes/" + mutex + "/events", open: make(chan struct{}), id: id}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			s.follow(ctx)
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}()
	select {
	case <-s.open:
	case <-time.After(generous):
		t.Fatalf("%s: no stream after %v", s.url, generous)
	}
	return s
}

// follow reads one stream to its end.
func (s *stream) follow(ctx context.Context) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		s.t.Error(err)
		return
	}
	if id := s.lastID(); id != "" {
		req.Header.Set("Last-Event-ID", id)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
		s.opened()
		s.read(bufio.NewScanner(resp.Body))
	case http.StatusServiceUnavailable:
	default:
		s.t.Errorf("%s: got status %d", s.url, resp.StatusCode)
	}
}

func (s *stream) opened() {
	select {
	case <-s.open:
	default:
		close(s.open)
	}
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
}

// has reports whether an event came with all of these words.
func (s *stream) has(words ...string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.seen, func(event string) bool {
		return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(event, w) })
	})
}

// tells waits for such an event.
func (s *stream) tells(words ...string) {
	s.t.Helper()
	eventually(s.t, "an event with "+strings.Join(words, ", "), func() bool { return s.has(words...) })
}

func (s *stream) lastID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}
