package service

import "time"

// State is what a mutex is in.
type State string

// The states of a mutex.
const (
	StateIdle       State = "idle"       // nobody owns it
	StateTTL        State = "ttl"        // owned, the owner is exclusive
	StateTransition State = "transition" // owned, and overdue to be guarded
)

// Revision orders changes; it is etcd's.
type Revision int64

// Ownership is that a contender holds a mutex. The remaining times are as of
// the answer, on the monotonic clock of the replica that gave it.
type Ownership struct {
	Contender           ContenderID
	Fence               Fence
	AcquiredAt          time.Time // wall clock, for people to read; decides nothing
	Held                time.Duration
	TTL                 time.Duration
	Transition          time.Duration
	TTLRemaining        time.Duration
	TransitionRemaining time.Duration // until the end of the transition window, that is of W
	Metadata            map[string]string
}

// Mutex is a mutex as it is read.
type Mutex struct {
	Name     Name
	Revision Revision // the largest over its keys, deletions included
	// Declaration is 0 for an ad hoc mutex, else the revision of what is
	// declared: its entity tag.
	Declaration Revision
	Settings    Settings
	State       State
	Owner       *Ownership
	Waiters     int // present ones
}

// Waiter is a party in line.
type Waiter struct {
	Contender ContenderID
	Place     int // 1 = next, counted over those present; 0 for one that is away
	Present   bool
	JoinedAt  time.Time
	Metadata  map[string]string
}

// Ending is how an ownership or a wait ended.
type Ending string

// The endings.
const (
	EndedUnknown  Ending = "unknown" // nothing is known, or no longer
	EndedReleased Ending = "released"
	EndedExpired  Ending = "expired"
	EndedBroken   Ending = "broken"
	EndedLeft     Ending = "left" // a wait that was given up by a release
)

// PastOwnership is an ownership that ended.
type PastOwnership struct {
	Contender  ContenderID
	Fence      Fence
	AcquiredAt time.Time
	EndedAt    time.Time
	Ended      Ending
	Reason     string // given by whoever broke it
}

// EventType says what happened to a mutex.
type EventType string

// The events. EventReset stands for a gap that cannot be filled: the reader
// starts again from the state that it carries.
const (
	EventAcquired   EventType = "acquired"
	EventGuarded    EventType = "guarded"
	EventTransition EventType = "transition"
	EventReleased   EventType = "released"
	EventExpired    EventType = "expired"
	EventBroken     EventType = "broken"
	EventQueued     EventType = "queued"
	EventLeft       EventType = "left"
	EventReset      EventType = "reset"
)

// EventID is a place in a mutex's events: a revision, and an index within it,
// since one transaction can end one ownership and begin another.
type EventID struct {
	Revision Revision
	Index    int
}

// Event is one thing that happened to a mutex.
type Event struct {
	ID        *EventID // nil for EventTransition, which no write causes
	Type      EventType
	Mutex     Name
	Contender ContenderID
	Fence     Fence  // 0 for what concerns the line
	Reason    string // of EventBroken
	State     *Mutex // of EventReset
}
