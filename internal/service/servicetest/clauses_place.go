package servicetest

import (
	"time"

	"github.com/holdfast-lock/holdfast/internal/service"
)

var placeClauses = []clause{
	{"P7 a new poll keeps the place", func(s *scene) {
		deploy := s.mutex("deploy")
		alice, bob := deploy.party("alice"), deploy.party("bob")
		alice.acquires()
		first := bob.waits()
		carol := deploy.party("carol").waits()
		first.isCancelled()
		deploy.lineIs("carol")
		second := bob.waits()
		deploy.lineIs("bob", "carol")
		alice.releases()
		second.acquires()
		bob.releases()
		carol.acquires()
	}},
	{"P7 a place survives a pause of eight seconds", func(s *scene) {
		deploy := s.mutex("deploy")
		alice, bob := deploy.party("alice"), deploy.party("bob")
		alice.acquires(ttl(time.Minute))
		first := bob.waits()
		deploy.party("carol").waits()
		first.isCancelled()
		time.Sleep(8 * time.Second)
		bob.waits()
		deploy.lineIs("bob", "carol")
	}},
	{"P7 a place that is used again does not lapse", func(s *scene) {
		deploy := s.mutex("deploy")
		alice, bob := deploy.party("alice"), deploy.party("bob")
		alice.acquires(ttl(time.Minute))
		bob.waits().isCancelled()
		back := bob.waits()
		time.Sleep(16 * time.Second) // when it would have lapsed
		deploy.lineIs("bob")
		alice.releases()
		back.acquires()
	}},
	{"a place that is not used again lapses", func(s *scene) {
		deploy := s.mutex("deploy")
		deploy.party("alice").acquires(ttl(time.Minute))
		deploy.party("bob").waits().isCancelled()
		time.Sleep(16 * time.Second) // ten seconds, and five to tidy up
		if line := deploy.line(); len(line) != 0 {
			s.t.Errorf("got line %+v, want nobody", line)
		}
	}},
	{"P7 the turn of one who is away passes on and the place stays", func(s *scene) {
		deploy := s.mutex("deploy")
		alice, bob, carol := deploy.party("alice"), deploy.party("bob"), deploy.party("carol")
		alice.acquires()
		bob.waits().isCancelled()
		wait := carol.waits()
		deploy.party("dave").waits()
		alice.releases()
		wait.acquires()
		back := bob.waits()
		deploy.lineIs("bob", "dave")
		carol.releases()
		back.acquires()
	}},
	{"P7 a place is kept again and again", func(s *scene) {
		deploy := s.mutex("deploy")
		alice, bob := deploy.party("alice"), deploy.party("bob")
		alice.acquires()
		bob.waits().isCancelled()
		carol := deploy.party("carol").waits()
		for range 5 {
			if e := bob.polls(20 * time.Millisecond).fails(service.KindLocked); e.Place != 1 {
				s.t.Fatalf("got place %d, want 1", e.Place)
			}
		}
		wait := bob.waits()
		alice.releases()
		wait.acquires()
		bob.releases()
		carol.acquires()
	}},
	{"those away hinder nobody", func(s *scene) {
		deploy := s.mutex("deploy")
		alice, bob := deploy.party("alice"), deploy.party("bob")
		alice.acquires()
		bob.waits().isCancelled()
		alice.releases()
		carol := deploy.party("carol")
		carol.acquires()
		carol.releases()
		bob.acquires()
	}},
	{"a place that is away can be released", func(s *scene) {
		deploy := s.mutex("deploy")
		alice, bob := deploy.party("alice"), deploy.party("bob")
		alice.acquires()
		bob.waits().isCancelled()
		bob.releaseSays(service.LeftLine, "")
		if line := deploy.line(); len(line) != 0 {
			s.t.Errorf("got line %+v, want nobody", line)
		}
	}},
	{"who left the line may come back at its end", func(s *scene) {
		deploy := s.mutex("deploy")
		alice, bob := deploy.party("alice"), deploy.party("bob")
		alice.acquires()
		bob.waits()
		carol := deploy.party("carol").waits()
		bob.releaseSays(service.LeftLine, "")
		back := bob.waits()
		deploy.lineIs("carol", "bob")
		alice.releases()
		carol.acquires()
		carol.party.releases()
		back.acquires()
	}},
}
