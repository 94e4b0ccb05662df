package service

import (
	"context"
	"errors"
	"time"
)

// AcquireCall is an acquire as a client makes it.
type AcquireCall struct {
	Mutex     Name
	Contender ContenderID // "" = the one that the token stands for
	Token     Token       // "" = choose one
	Wait      time.Duration
	Asked     Asked
	Metadata  map[string]string
}

// Acquired is who asked, also when the acquire failed, and the Grant when it
// did not.
type Acquired struct {
	Contender ContenderID
	Token     Token
	Grant     Grant
}

// Acquire makes the contender the owner, or waits in line. A wait is cut to
// the longest poll; a KindLocked error says in Waited to how much. The caller
// MUST call Told or Lost on the Grant. Errors: as of Store.Acquire, and
// KindDraining, also when the replica begins to drain during the wait.
func (s *Service) Acquire(ctx context.Context, call AcquireCall) (Acquired, error) {
	who := Acquired{Contender: call.Contender, Token: call.Token}
	if who.Token == "" {
		who.Token = NewToken()
	}
	if who.Contender == "" {
		who.Contender = Anonymous(who.Token)
	}
	if err := checkMetadata(call.Metadata); err != nil {
		return who, err
	}
	wait := min(call.Wait, s.cfg.MaxWait)

	ctx, cancel := s.waiting(ctx)
	defer cancel()
	if ctx.Err() != nil {
		return who, s.ended(call.Mutex, context.Cause(ctx))
	}
	grant, err := s.store.Acquire(ctx, AcquireRequest{
		Mutex:    call.Mutex,
		Party:    NewParty(who.Contender, who.Token),
		Wait:     wait,
		Asked:    call.Asked,
		Metadata: call.Metadata,
	})
	if err != nil {
		return who, s.locked(s.ended(call.Mutex, err), wait)
	}
	who.Grant = grant
	return who, nil
}

// locked completes a KindLocked error with what the client should know about
// its wait.
func (s *Service) locked(err error, wait time.Duration) error {
	var e *Error
	if !errors.As(err, &e) || e.Kind != KindLocked {
		return err
	}
	e.Waited = wait
	switch {
	case e.Place > 0:
		e.RetryAfter = 0 // poll again at once: a place out of sight is passed over
	case e.Holder != nil:
		// The holder may guard for hours; a minute bounds how late one who
		// does not wait in line can notice that it did not.
		e.RetryAfter = min(max(e.Holder.TransitionRemaining, time.Second), time.Minute)
	default:
		e.RetryAfter = time.Second
	}
	return e
}

func checkMetadata(m map[string]string) error {
	size := 0
	for k, v := range m {
		size += len(k) + len(v)
	}
	if size > MaxMetadata {
		return Invalid("metadata", "must have at most 2048 bytes, keys and values together")
	}
	return nil
}
