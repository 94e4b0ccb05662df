package torture_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// witness hears of every event of a mutex.
type witness struct {
	s  *stage
	mu sync.Mutex

	owners []string // whoever acquired, in order; guarded by mu
}

// witness begins to listen, and returns when it does.
func (s *stage) witness(mutex string) *witness {
	s.t.Helper()
	ctx, stop := context.WithCancel(s.t.Context())
	s.t.Cleanup(stop)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL()+"/v1/mutexes/"+mutex+"/events", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = resp.Body.Close() })
	lines := bufio.NewScanner(resp.Body)
	if !lines.Scan() { // the comment with which a stream begins
		s.t.Fatalf("events of %s: %v", mutex, lines.Err())
	}
	w := &witness{s: s}
	go func() {
		for lines.Scan() {
			w.hear(lines.Text())
		}
	}()
	return w
}

func (w *witness) hear(line string) {
	var event struct {
		Type      string
		Contender string `json:"contender_id"`
	}
	data, ok := strings.CutPrefix(line, "data:")
	if !ok || json.Unmarshal([]byte(data), &event) != nil || event.Type != "acquired" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.owners = append(w.owners, event.Contender)
}

// saw fails unless these owned the mutex, in this order, and nobody else.
func (w *witness) saw(want ...string) {
	w.s.t.Helper()
	var got []string
	w.s.eventually("the last owner is heard of", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		got = slices.Clone(w.owners)
		return slices.Contains(got, want[len(want)-1])
	})
	if !slices.Equal(got, want) {
		w.s.t.Errorf("got owners %v, want %v", got, want)
	}
}
