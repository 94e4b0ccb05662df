package etcdstore

import (
	"context"
	"time"
)

// hedgeAfter returns how long an answer may take before the same call is made
// once more, to another member where there is one: the first may have stopped.
// A fifth of the time-out, 1 s of 5 s: an election, or a slow disk, is over
// within what is left then.
func (s *Store) hedgeAfter() time.Duration { return s.cfg.Timeout / 5 }

// hedged makes a call, and a second time when there is no answer for a while.
// The first answer counts. call must be one that may be carried out twice.
func hedged[T any](ctx context.Context, after time.Duration, call func(ctx context.Context) (T, error)) (T, error) {
	ctx, answered := context.WithCancel(ctx)
	defer answered()
	var second T
	var secondErr error
	done := make(chan struct{})
	timer := time.AfterFunc(after, func() {
		defer close(done)
		if second, secondErr = call(ctx); secondErr == nil {
			answered()
		}
	})
	first, err := call(ctx)
	if alone := timer.Stop(); alone || err == nil {
		return first, err
	}
	<-done
	if secondErr == nil || isRefused(err) {
		return second, secondErr // of the two, what leaves the outcome unknown
	}
	return first, err
}
