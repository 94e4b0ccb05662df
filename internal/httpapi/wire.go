package httpapi

import (
	"math"
	"time"

	"github.com/holdfast-lock/holdfast/internal/httpapi/apigen"
	"github.com/holdfast-lock/holdfast/internal/service"
)

// instantFormat is RFC 3339 with milliseconds, also when they are 0.
const instantFormat = "2006-01-02T15:04:05.000Z07:00"

func instant(t time.Time) string { return t.UTC().Format(instantFormat) }

// millis rounds down, so that nobody counts on time that is not left.
func millis(d time.Duration) int64 { return max(0, d.Milliseconds()) }

// duration is at most what a Duration can hold, which is longer than any wait.
func duration(ms int64) time.Duration {
	return time.Duration(min(ms, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}

func optionalDuration(ms *int64) *time.Duration {
	if ms == nil {
		return nil
	}
	return ptr(duration(*ms))
}

func ptr[T any](v T) *T { return &v }

// optional leaves a zero value out.
func optional[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// value is the zero value for what was left out.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// partyOf parses who guards or releases.
func partyOf(contender *string, token string) (service.Party, service.Token, error) {
	t, err := service.ParseToken(token)
	if err != nil {
		return service.Party{}, "", err
	}
	var id service.ContenderID
	if contender != nil {
		if id, err = service.ParseContenderID(*contender); err != nil {
			return service.Party{}, "", err
		}
	}
	return service.PartyOf(id, t), t, nil
}

// guardsPerTTL: a guard after a third of the ttl, so that two may fail.
const guardsPerTTL = 3

// ttlEnd is when the ttl window ends, or ended: the time that remains of it
// stops at 0, so from then on the other window has to tell.
func ttlEnd(o service.Ownership, now time.Time) time.Time {
	if o.TTLRemaining > 0 {
		return now.Add(o.TTLRemaining)
	}
	return now.Add(min(0, o.TransitionRemaining-o.Transition))
}

func ownershipOf(name service.Name, token service.Token, o service.Ownership, now time.Time) apigen.Ownership {
	return apigen.Ownership{
		Mutex:                 string(name),
		ContenderId:           string(o.Contender),
		Token:                 string(token),
		FencingToken:          int64(o.Fence),
		AcquiredAt:            instant(o.AcquiredAt),
		TtlAt:                 instant(ttlEnd(o, now)),
		TransitionAt:          instant(now.Add(o.TransitionRemaining)),
		TtlMs:                 millis(o.TTL),
		TransitionMs:          millis(o.Transition),
		TtlRemainingMs:        millis(o.TTLRemaining),
		TransitionRemainingMs: millis(o.TransitionRemaining),
		GuardAfterMs:          millis(o.TTL / guardsPerTTL),
	}
}

func ownerOf(o *service.Ownership, now time.Time) *apigen.Owner {
	if o == nil {
		return nil
	}
	return &apigen.Owner{
		ContenderId:           string(o.Contender),
		FencingToken:          int64(o.Fence),
		AcquiredAt:            instant(o.AcquiredAt),
		HeldMs:                millis(o.Held),
		TtlAt:                 instant(ttlEnd(*o, now)),
		TransitionAt:          instant(now.Add(o.TransitionRemaining)),
		TtlMs:                 millis(o.TTL),
		TransitionMs:          millis(o.Transition),
		TtlRemainingMs:        millis(o.TTLRemaining),
		TransitionRemainingMs: millis(o.TransitionRemaining),
		Metadata:              orEmpty(o.Metadata),
	}
}

func mutexOf(m service.Mutex, now time.Time) apigen.Mutex {
	return apigen.Mutex{
		Name:     string(m.Name),
		Revision: int64(m.Revision),
		Declared: m.Declaration != 0,
		Settings: apigen.MutexSettings{
			Description:  m.Settings.Description,
			TtlMs:        millis(m.Settings.TTL),
			TransitionMs: millis(m.Settings.Transition),
			MaxHoldMs:    millis(m.Settings.MaxHold),
			MaxWaiters:   m.Settings.MaxWaiters,
			Labels:       orEmpty(m.Settings.Labels),
		},
		State:   apigen.MutexState(m.State),
		Owner:   ownerOf(m.Owner, now),
		Waiters: m.Waiters,
	}
}

// orEmpty makes {} of no map, where null would not fit the contract.
func orEmpty(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

func waiterOf(w service.Waiter) apigen.Waiter {
	return apigen.Waiter{
		ContenderId: string(w.Contender),
		Place:       optional(w.Place),
		Present:     w.Present,
		JoinedAt:    instant(w.JoinedAt),
		Metadata:    orEmpty(w.Metadata),
	}
}

func pastOf(p service.PastOwnership) apigen.PastOwnership {
	return apigen.PastOwnership{
		ContenderId:  string(p.Contender),
		FencingToken: int64(p.Fence),
		AcquiredAt:   instant(p.AcquiredAt),
		EndedAt:      instant(p.EndedAt),
		Ended:        apigen.Ending(p.Ended),
		Reason:       optional(p.Reason),
	}
}

func eventOnWire(ev service.Event, now time.Time) apigen.Event {
	out := apigen.Event{
		Type:         apigen.EventType(ev.Type),
		Mutex:        string(ev.Mutex),
		ContenderId:  optional(string(ev.Contender)),
		FencingToken: optional(int64(ev.Fence)),
		Reason:       optional(ev.Reason),
	}
	if ev.State != nil {
		out.Present = ptr(mutexOf(*ev.State, now))
	}
	return out
}
