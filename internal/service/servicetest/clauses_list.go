package servicetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-lock/holdfast/internal/service"
)

var listClauses = []clause{
	{"list has what is declared, owned or waited for", func(s *scene) {
		s.mutex("a-declared").declares(service.Settings{TTL: time.Second})
		s.mutex("b-owned").party("alice").acquires()
		busy := s.mutex("c-waited-for")
		busy.party("alice").acquires()
		busy.party("bob").waits()
		over := s.mutex("d-released").party("alice")
		over.acquires()
		over.releases()
		s.mutex("e-read").reads()
		s.lists(service.ListRequest{}, "a-declared", "b-owned", "c-waited-for")
	}},
	{"list reads each as it is", func(s *scene) {
		deploy := s.mutex("deploy")
		deploy.declares(service.Settings{TTL: 5 * time.Second, Labels: map[string]string{"team": "web"}})
		held := deploy.party("alice").acquires()
		deploy.party("bob").waits()
		s.eventually("the list is up to date", func() bool {
			page, err := s.store.List(s.t.Context(), service.ListRequest{Prefix: s.prefix})
			s.ok(err)
			if len(page.Mutexes) != 1 {
				return false
			}
			m := page.Mutexes[0]
			return m.State == service.StateTTL && m.Owner != nil && m.Owner.Fence == held.Fence && m.Waiters == 1 &&
				m.Declaration > 0 && m.Settings.TTL == 5*time.Second && m.Settings.Labels["team"] == "web"
		})
	}},
	{"list filters", func(s *scene) {
		for name, labels := range map[string]map[string]string{
			"api": {"team": "web", "tier": "1"}, "db": {"team": "data", "tier": "1"}, "ui": {"team": "web"},
		} {
			s.mutex(name).declares(service.Settings{TTL: 10 * time.Second, Transition: 10 * time.Second, Labels: labels})
		}
		s.mutex("api").party("alice").acquires()
		s.mutex("ui").party("bob").acquires(ttl(100 * time.Millisecond))

		s.lists(service.ListRequest{}, "api", "db", "ui")
		s.lists(service.ListRequest{Labels: map[string]string{"team": "web"}}, "api", "ui")
		s.lists(service.ListRequest{Labels: map[string]string{"team": "web", "tier": "1"}}, "api")
		s.lists(service.ListRequest{Labels: map[string]string{"tier": ""}})
		s.lists(service.ListRequest{Owner: "alice"}, "api")
		s.lists(service.ListRequest{State: service.StateIdle}, "db")
		s.lists(service.ListRequest{State: service.StateTTL}, "api")
		s.lists(service.ListRequest{State: service.StateTransition}, "ui")
		s.lists(service.ListRequest{State: service.StateTransition, Owner: "alice"})
		s.lists(service.ListRequest{Prefix: "a"}, "api")
	}},
	{"list has pages", func(s *scene) {
		var want []string
		for i := range 7 {
			name := fmt.Sprintf("m%d", i)
			want = append(want, name)
			s.mutex(name).declares(service.Settings{TTL: time.Second})
		}
		s.lists(service.ListRequest{}, want...)
		for _, limit := range []int{1, 3, 7, 8} {
			got, sizes := s.pages(limit)
			if !slices.Equal(got, want) {
				s.t.Errorf("by %d: got %v, want %v", limit, got, want)
			}
			if most := slices.Max(sizes); most > limit || slices.Contains(sizes, 0) {
				s.t.Errorf("by %d: got pages of %v", limit, sizes)
			}
		}
	}},
}

// lists checks what a list selects of the scene's mutexes.
func (s *scene) lists(req service.ListRequest, want ...string) {
	s.t.Helper()
	req.Prefix = s.prefix + req.Prefix
	var got []string
	s.eventually(fmt.Sprintf("the list %+v is %v", req, want), func() bool {
		page, err := s.store.List(s.t.Context(), req)
		s.ok(err)
		got = s.names(page)
		return slices.Equal(got, want)
	})
}

// pages are the names on all pages, and how many each had.
func (s *scene) pages(limit int) (names []string, sizes []int) {
	s.t.Helper()
	req := service.ListRequest{Prefix: s.prefix, Limit: limit}
	for {
		page, err := s.store.List(s.t.Context(), req)
		s.ok(err)
		names, sizes = append(names, s.names(page)...), append(sizes, len(page.Mutexes))
		if page.Next == "" {
			return names, sizes
		}
		req.After = page.Next
	}
}

func (s *scene) names(page service.Page) []string {
	var names []string
	for _, m := range page.Mutexes {
		names = append(names, strings.TrimPrefix(string(m.Name), s.prefix))
	}
	return names
}
