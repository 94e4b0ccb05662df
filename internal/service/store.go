package service

import (
	"context"
	"iter"
	"time"
)

// Store keeps mutexes. Its comments are the specification; servicetest.TestStore
// is the same, executable. Implementations are safe for concurrent use.
//
// Every method returns an *Error, or, when ctx ended before an outcome,
// context.Cause(ctx). After KindOutcomeUnknown the same call may be repeated
// with the same meaning; the store MUST find out by itself what happened, and
// undo what nobody was told of. After any other error nothing was changed,
// but where a method says so. Every refusal MUST rest on a linearizable read
// or on a transaction. Arguments are valid: they come from the Parse functions
// and are within the limits of this package.
type Store interface {
	// Acquire makes the party the owner, or waits in line for up to req.Wait.
	//
	// The owner acquires again: the same fence, both windows anew, by what
	// this request asks and with its metadata. A party that is in line keeps
	// its place, also when the line is full by now; its older poll ends with
	// KindSuperseded. Without a wait, KindLocked when it is owned by another,
	// or when somebody else is present in line. Waiters present are served in
	// the order in which they first joined, and granted what they asked for
	// as far as it is declared by then. A token that left the line is not spent.
	//
	// When the wait is over, or ctx ends, the party is no longer present, but
	// its place survives for at least 10 s; only then does Acquire return.
	// Its answer is KindLocked, or context.Cause(ctx). A grant that came in
	// that moment is still returned when the wait is over, and is passed on,
	// unspent, when ctx ended.
	//
	// The caller MUST call Told or Lost on the Grant.
	//
	// Kinds: Locked, TokenSpent, Superseded, LeftLine, MutexNotDeclared,
	// InvalidArgument (more than what is declared), MaxHoldReached,
	// TooManyWaiters, Unavailable, OutcomeUnknown.
	Acquire(ctx context.Context, req AcquireRequest) (Grant, error)

	// Guard starts both windows of the ownership again from now. The fence
	// stays, and a Lost that comes after it undoes nothing: whoever guards
	// knows that it owns. MaxHoldReached also for two minutes after the
	// ownership ended at that age. Ended is never EndedLeft. Kinds: NotOwner,
	// MaxHoldReached, Unavailable, OutcomeUnknown.
	Guard(ctx context.Context, req GuardRequest) (Ownership, error)

	// GuardMany is Guard for each, in the order of reqs, at less than one
	// write each. Items fail singly.
	GuardMany(ctx context.Context, reqs []GuardRequest) []GuardResult

	// Release ends the ownership; the first waiter present owns it from the
	// same moment. A party that only waits leaves the line. A repeat says
	// ReleasedBefore or LeftLine, or ReleasedNow when its OperationID is that
	// of the call which freed it. With that OperationID it touches nothing
	// that the token began since. Kinds: NotOwner, Unavailable, OutcomeUnknown.
	Release(ctx context.Context, req ReleaseRequest) (Released, error)

	// Check returns the fence of the current ownership, 0 when there is none.
	// It MUST be linearizable. Kinds: MutexNotDeclared, Unavailable.
	Check(ctx context.Context, name Name) (Fence, error)

	// Mutex reads a mutex, linearizably. With After set it waits, up to
	// req.Wait, until something of the mutex is newer than After, and then
	// answers with the state, newer or not. An After beyond the store's
	// newest revision is answered at once. Kinds: MutexNotDeclared,
	// Unavailable.
	Mutex(ctx context.Context, req ReadRequest) (Mutex, error)

	// Waiters returns the line in order, those present and those away,
	// linearizably. Kinds: MutexNotDeclared, Unavailable.
	Waiters(ctx context.Context, name Name) ([]Waiter, error)

	// History returns the last ten ownerships that ended, the newest first;
	// of an ad hoc mutex those of the last two minutes. A lost grant is not
	// among them. Kinds: MutexNotDeclared, Unavailable.
	History(ctx context.Context, name Name) ([]PastOwnership, error)

	// Events yields what happens to a mutex from now on, or since after,
	// until ctx ends or the caller stops. An error is yielded last. Within a
	// revision what ended comes before what began. EventQueued and EventLeft
	// tell of places, not of the polls that come and go on them; a lost grant
	// ends with EventExpired. Kinds: MutexNotDeclared, Unavailable.
	Events(ctx context.Context, name Name, after *EventID) iter.Seq2[Event, error]

	// Break ends the ownership with this fence against its owner's will.
	// Repeated, it succeeds again. Kinds: PreconditionFailed (another fence,
	// or nobody, owns it; Holder says who), MutexNotDeclared, Unavailable,
	// OutcomeUnknown.
	Break(ctx context.Context, req BreakRequest) (PastOwnership, error)

	// Declare stores settings. It applies from the next acquire or guard on.
	// created is false when it changed what was declared. Kinds:
	// PreconditionFailed, Unavailable, OutcomeUnknown.
	Declare(ctx context.Context, req DeclareRequest) (m Mutex, created bool, err error)

	// Remove forgets the settings and the history. Of a mutex that is owned
	// only with Force, which ends the ownership as broken. Kinds:
	// MutexNotDeclared, MutexHeld, PreconditionFailed, Unavailable,
	// OutcomeUnknown.
	Remove(ctx context.Context, req RemoveRequest) error

	// List returns the mutexes that are declared, owned or waited for, by
	// name. It may lag behind, by less than 2 s. Kinds: Unavailable.
	List(ctx context.Context, req ListRequest) (Page, error)

	// Ready returns nil when the store can answer: its view is not behind and
	// it can read. Kinds: Unavailable.
	Ready(ctx context.Context) error
}

// Grant is an ownership that its new owner has not been told of yet. Exactly
// one of Told and Lost is called, once; neither blocks.
type Grant interface {
	Ownership() Ownership
	// Told says that the answer was written to the client.
	Told()
	// Lost says that the client cannot have been told. What this very request
	// brought about is undone: the turn passes on, the token is not spent and
	// a place in line is kept. What was owned before stays as it is.
	Lost()
}

// AcquireRequest asks for a mutex.
type AcquireRequest struct {
	Mutex    Name
	Party    Party
	Wait     time.Duration // from now; 0 = do not wait
	Asked    Asked
	Metadata map[string]string
}

// GuardRequest renews an ownership.
type GuardRequest struct {
	Mutex Name
	Party Party
}

// GuardResult is one outcome of GuardMany.
type GuardResult struct {
	Ownership Ownership
	Err       error // as of Guard
}

// ReleaseRequest gives back, or leaves the line.
type ReleaseRequest struct {
	Mutex       Name
	Party       Party
	OperationID string // "" = none
}

// Released is the outcome of a release.
type Released int

// The outcomes of a release.
const (
	_              Released = iota
	ReleasedNow             // this call freed it
	ReleasedBefore          // an earlier one did
	LeftLine                // the party was only waiting
)

// ReadRequest reads a mutex.
type ReadRequest struct {
	Mutex Name
	After *Revision
	Wait  time.Duration
}

// BreakRequest breaks a lock.
type BreakRequest struct {
	Mutex  Name
	Fence  Fence // the ownership that the operator saw
	Reason string
}

// Precondition guards a change of what is declared. The zero value does not.
type Precondition struct {
	Match  Revision // 0 = any
	Absent bool     // must not be declared yet
}

// DeclareRequest declares a mutex; its Settings are whole (see
// Service.Defaults).
type DeclareRequest struct {
	Mutex    Name
	Settings Settings
	If       Precondition
}

// RemoveRequest removes a declaration.
type RemoveRequest struct {
	Mutex Name
	Force bool
	If    Precondition
}

// ListRequest selects mutexes. Zero fields select all.
type ListRequest struct {
	Prefix string
	State  State
	Owner  ContenderID
	Labels map[string]string
	After  Name // the last one of the page before
	Limit  int
}

// Page is a part of a list; Next is "" at its end.
type Page struct {
	Mutexes []Mutex
	Next    Name
}
