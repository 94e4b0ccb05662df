package service

import (
	"fmt"
	"time"
)

// Limits of windows, in time. The wire carries whole milliseconds.
const (
	MinTTL        = 100 * time.Millisecond
	MaxTTL        = 86_400_000 * time.Millisecond
	MaxTransition = 3_600_000 * time.Millisecond
	// MaxMetadata bounds keys and values of an ownership's metadata together,
	// in bytes: it is written again with every guard.
	MaxMetadata = 2 << 10
)

// Settings are what is declared for a mutex, or the defaults of an ad hoc one.
type Settings struct {
	Description string
	TTL         time.Duration
	Transition  time.Duration
	MaxHold     time.Duration // 0 = none
	MaxWaiters  int           // 0 = none
	Labels      map[string]string
}

// Terms are the windows that one grant or guard gives.
type Terms struct {
	TTL        time.Duration
	Transition time.Duration
	MaxHold    time.Duration
}

// Window is W: how long the owner keeps the mutex without guarding.
func (t Terms) Window() time.Duration { return t.TTL + t.Transition }

// Cut returns the two windows from now of an ownership of age held: they end
// at MaxHold at the latest.
func (t Terms) Cut(held time.Duration) (ttl, window time.Duration) {
	ttl, window = t.TTL, t.Window()
	if t.MaxHold > 0 {
		left := max(0, t.MaxHold-held)
		ttl, window = min(ttl, left), min(window, left)
	}
	return ttl, window
}

// Asked is what an acquire asks for; nil means whatever the settings say.
type Asked struct {
	TTL        *time.Duration
	Transition *time.Duration
}

// Policy is the one source of settings for both kinds of mutexes.
type Policy struct {
	DefaultTTL        time.Duration
	DefaultTransition time.Duration
	DenyUndeclared    bool
}

// Resolve returns the settings in force for name: the declared ones, or the
// defaults, or KindMutexNotDeclared where those are not allowed.
func (p Policy) Resolve(name Name, declared *Settings) (Settings, error) {
	if declared != nil {
		return *declared, nil
	}
	if p.DenyUndeclared {
		return Settings{}, &Error{Kind: KindMutexNotDeclared, Mutex: name}
	}
	return Settings{TTL: p.DefaultTTL, Transition: p.DefaultTransition}, nil
}

// Grant returns the terms of a grant: what was asked, or the settings. Asking
// for more than what is declared is a KindInvalidArgument.
func (s Settings) Grant(isDeclared bool, a Asked) (Terms, error) {
	t := Terms{TTL: s.TTL, Transition: s.Transition, MaxHold: s.MaxHold}
	if a.TTL != nil {
		if isDeclared && *a.TTL > s.TTL {
			return t, Invalid("ttl_ms", fmt.Sprintf("must be at most the declared %d", s.TTL.Milliseconds()))
		}
		t.TTL = *a.TTL
	}
	if a.Transition != nil {
		if isDeclared && *a.Transition > s.Transition {
			return t, Invalid("transition_ms", fmt.Sprintf("must be at most the declared %d", s.Transition.Milliseconds()))
		}
		t.Transition = *a.Transition
	}
	return t, nil
}

// Renew returns the terms of a guard, or of a grant that was asked for
// earlier: the smaller of what was asked then and what is declared now.
func (s Settings) Renew(isDeclared bool, a Asked) Terms {
	t := Terms{TTL: s.TTL, Transition: s.Transition, MaxHold: s.MaxHold}
	if a.TTL != nil && (!isDeclared || *a.TTL < s.TTL) {
		t.TTL = *a.TTL
	}
	if a.Transition != nil && (!isDeclared || *a.Transition < s.Transition) {
		t.Transition = *a.Transition
	}
	return t
}
