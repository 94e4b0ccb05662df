package servicetest

import (
	"maps"
	"time"

	"github.com/holdfast-lock/holdfast/internal/service"
)

var declareClauses = []clause{
	{"declare stores settings", func(s *scene) {
		deploy := s.mutex("deploy")
		want := service.Settings{
			Description: "one deployment at a time", TTL: 5 * time.Second, Transition: 3 * time.Second,
			MaxHold: time.Hour, MaxWaiters: 7, Labels: map[string]string{"team": "web"},
		}
		got, created, err := s.store.Declare(s.t.Context(), service.DeclareRequest{Mutex: deploy.name, Settings: want})
		s.ok(err)
		if !created || got.Declaration <= 0 || got.Name != deploy.name {
			s.t.Errorf("got %+v, created %t; want a new one with an entity tag", got, created)
		}
		for _, m := range []service.Mutex{got, deploy.reads()} {
			sameSettings(s, m.Settings, want)
			if m.Declaration != got.Declaration {
				s.t.Errorf("got entity tag %d, want %d", m.Declaration, got.Declaration)
			}
		}
		want.Labels, want.MaxHold = nil, 0
		changed, created, err := s.store.Declare(s.t.Context(), service.DeclareRequest{Mutex: deploy.name, Settings: want})
		s.ok(err)
		sameSettings(s, changed.Settings, want)
		if created || changed.Declaration <= got.Declaration {
			s.t.Errorf("got entity tag %d, created %t; want a change of %d", changed.Declaration, created, got.Declaration)
		}
	}},
	{"declare can depend on there being none", func(s *scene) {
		deploy := s.mutex("deploy")
		req := service.DeclareRequest{Mutex: deploy.name, Settings: service.Settings{TTL: time.Second}, If: service.Precondition{Absent: true}}
		_, created, err := s.store.Declare(s.t.Context(), req)
		s.ok(err)
		if !created {
			s.t.Error("got a change, want a creation")
		}
		_, _, err = s.store.Declare(s.t.Context(), req)
		s.kind(err, service.KindPreconditionFailed)
	}},
	{"declare can depend on what was seen", func(s *scene) {
		deploy := s.mutex("deploy")
		try := func(match service.Revision, ttl time.Duration) error {
			_, _, err := s.store.Declare(s.t.Context(), service.DeclareRequest{
				Mutex: deploy.name, Settings: service.Settings{TTL: ttl}, If: service.Precondition{Match: match},
			})
			return err
		}
		s.kind(try(1, time.Second), service.KindPreconditionFailed)
		first := deploy.declares(service.Settings{TTL: 5 * time.Second}).Declaration
		deploy.party("alice").acquires() // the entity tag is of the settings alone
		s.ok(try(first, 6*time.Second))
		s.kind(try(first, 7*time.Second), service.KindPreconditionFailed)
		if got := deploy.reads().Settings.TTL; got != 6*time.Second {
			s.t.Errorf("got ttl %v, want 6 s", got)
		}
	}},
	{"declaring what is owned leaves the owner alone", func(s *scene) {
		deploy := s.mutex("deploy")
		alice := deploy.party("alice")
		held := alice.acquires()
		deploy.declares(service.Settings{TTL: 5 * time.Second})
		if got := deploy.reads().Owner; got == nil || got.Fence != held.Fence || got.TTL != held.TTL {
			s.t.Errorf("got owner %+v, want %+v", got, held)
		}
		alice.guards()
	}},
	{"remove forgets the settings and the history", func(s *scene) {
		deploy := s.mutex("deploy")
		remove := func() error { return s.store.Remove(s.t.Context(), service.RemoveRequest{Mutex: deploy.name}) }
		s.kind(remove(), service.KindMutexNotDeclared)
		deploy.declares(service.Settings{TTL: 5 * time.Second})
		alice := deploy.party("alice")
		alice.acquires()
		alice.releases()
		s.ok(remove())
		s.kind(remove(), service.KindMutexNotDeclared)
		if got := deploy.reads(); got.Declaration != 0 || got.Settings.TTL != policy(false).DefaultTTL {
			s.t.Errorf("got %+v, want an ad hoc mutex", got)
		}
		deploy.declares(service.Settings{TTL: 5 * time.Second})
		if got := deploy.history(); len(got) != 0 {
			s.t.Errorf("got history %+v, want none", got)
		}
	}},
	{"remove can depend on what was seen", func(s *scene) {
		deploy := s.mutex("deploy")
		seen := deploy.declares(service.Settings{TTL: 5 * time.Second}).Declaration
		now := deploy.declares(service.Settings{TTL: 6 * time.Second}).Declaration
		remove := func(match service.Revision) error {
			return s.store.Remove(s.t.Context(), service.RemoveRequest{Mutex: deploy.name, If: service.Precondition{Match: match}})
		}
		s.kind(remove(seen), service.KindPreconditionFailed)
		s.ok(remove(now))
	}},
	{"remove of what is owned needs force", func(s *scene) {
		deploy := s.mutex("deploy")
		deploy.declares(service.Settings{TTL: 5 * time.Second})
		alice := deploy.party("alice")
		alice.acquires()
		bob := deploy.party("bob").waits()
		err := s.store.Remove(s.t.Context(), service.RemoveRequest{Mutex: deploy.name})
		if e := s.kind(err, service.KindMutexHeld); e.Holder == nil || e.Holder.Contender != "alice" {
			s.t.Errorf("got holder %+v, want alice", e.Holder)
		}
		alice.guards()
		s.ok(s.store.Remove(s.t.Context(), service.RemoveRequest{Mutex: deploy.name, Force: true}))
		if e := alice.guardIsRefused(service.KindNotOwner); e.Ended != service.EndedBroken {
			s.t.Errorf("got ended %q, want broken", e.Ended)
		}
		s.isFresh(bob.acquires(), policy(false).DefaultTTL, policy(false).DefaultTransition)
	}},
}

func sameSettings(s *scene, got, want service.Settings) {
	s.t.Helper()
	labels := maps.Equal(got.Labels, want.Labels)
	if got.Description != want.Description || got.TTL != want.TTL || got.Transition != want.Transition ||
		got.MaxHold != want.MaxHold || got.MaxWaiters != want.MaxWaiters || !labels {
		s.t.Errorf("got settings %+v, want %+v", got, want)
	}
}
