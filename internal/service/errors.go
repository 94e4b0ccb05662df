package service

import (
	"fmt"
	"strings"
	"time"
)

// Kind says what went wrong; kinds are the vocabulary of the API. The zero
// value is not a kind.
type Kind int

// The kinds. httpapi maps each to a status and a code, in one table.
const (
	_                      Kind = iota
	KindInvalidArgument         // Field is at fault
	KindMutexNotDeclared        // undeclared names are denied, or there is nothing to remove
	KindLocked                  // owned by another, or others are in line
	KindTokenSpent              // the token had its ownership; Ended says how it ended
	KindSuperseded              // a newer poll of the same party took the place over
	KindLeftLine                // the place of this poll was released
	KindNotOwner                // guard or release without owning; Ended says what became of it
	KindMaxHoldReached          // guard beyond the declared age
	KindMutexHeld               // removing a mutex that is owned
	KindPreconditionFailed      // If-Match, If-None-Match, or the fencing token of a break
	KindTooManyWaiters          // the line is at its declared length
	KindUnavailable             // nothing was changed; try again
	KindDraining                // this replica is going away; try another
	KindOutcomeUnknown          // it may or may not have happened; repeat it
)

var kindText = map[Kind]string{
	KindInvalidArgument:    "invalid argument",
	KindMutexNotDeclared:   "mutex is not declared",
	KindLocked:             "mutex is locked",
	KindTokenSpent:         "token is spent",
	KindSuperseded:         "superseded by a newer poll",
	KindLeftLine:           "the place in line was released",
	KindNotOwner:           "not the owner",
	KindMaxHoldReached:     "held for as long as is allowed",
	KindMutexHeld:          "mutex is held",
	KindPreconditionFailed: "precondition failed",
	KindTooManyWaiters:     "too many waiters",
	KindUnavailable:        "unavailable",
	KindDraining:           "draining",
	KindOutcomeUnknown:     "outcome unknown",
}

// Kinds returns every kind, for tests that a mapping is total.
func Kinds() []Kind {
	all := make([]Kind, 0, len(kindText))
	for k := KindInvalidArgument; k <= KindOutcomeUnknown; k++ {
		all = append(all, k)
	}
	return all
}

func (k Kind) String() string { return kindText[k] }

// Error is the one error type of the domain. Fields that do not belong to its
// Kind are zero.
type Error struct {
	Kind  Kind
	Mutex Name

	Field  string // of KindInvalidArgument
	Detail string

	Holder  *Ownership    // who owns it now; nil when nobody does, or nobody knows
	Waiters int           // present, of KindLocked
	Place   int           // of KindLocked after a wait; 0 = not in line
	Waited  time.Duration // of KindLocked: the wait that was granted
	Ended   Ending        // of KindTokenSpent and KindNotOwner
	Fence   Fence         // of the ownership that ended, where it is known

	RetryAfter time.Duration // 0 = say nothing; of KindLocked: at once
	Err        error         // the cause, for the log alone
}

func (e *Error) Error() string {
	parts := make([]string, 0, 5)
	if e.Mutex != "" {
		parts = append(parts, fmt.Sprintf("mutex %q", string(e.Mutex)))
	}
	parts = append(parts, e.Kind.String())
	if e.Field != "" {
		parts = append(parts, e.Field)
	}
	if e.Detail != "" {
		parts = append(parts, e.Detail)
	}
	if e.Err != nil {
		parts = append(parts, e.Err.Error())
	}
	return strings.Join(parts, ": ")
}

func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is an *Error of the same Kind.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Kind == e.Kind
}

// Invalid returns a KindInvalidArgument error on field, a JSON name or path.
func Invalid(field, detail string) *Error {
	return &Error{Kind: KindInvalidArgument, Field: field, Detail: detail}
}

// Of returns an *Error of kind alone, to compare with errors.Is.
func Of(k Kind) *Error { return &Error{Kind: k} }
