package etcdstore

import (
	"context"
	"time"
)

// hedgeEvery returns how long an answer may take before the same call is made
// once more, to another member where there is one: the first may have stopped,
// or handed it on to a leader that has. A fifth of the time-out, 1 s of 5 s.
func (s *Store) hedgeEvery() time.Duration { return s.cfg.Timeout / 5 }

// hedged makes a call, and the same again whenever there is no answer for a
// while. The first answer counts. call must be one that may be carried out more
// than once.
func hedged[T any](ctx context.Context, every time.Duration, call func(ctx context.Context) (T, error)) (T, error) {
	ctx, answered := context.WithCancel(ctx)
	defer answered()
	var later T
	var laterErr error
	done := make(chan struct{})
	timer := time.AfterFunc(every, func() {
		defer close(done)
		if later, laterErr = repeated(ctx, every, call); laterErr == nil {
			answered()
		}
	})
	first, err := call(ctx)
	if alone := timer.Stop(); alone || err == nil {
		return first, err
	}
	<-done
	if laterErr == nil || isRefused(err) {
		return later, laterErr // of the two, what leaves the outcome unknown
	}
	return first, err
}

// repeated makes a call now, and again every so often, until one is answered or
// ctx ends.
func repeated[T any](ctx context.Context, every time.Duration, call func(ctx context.Context) (T, error)) (T, error) {
	answers := make(chan T)
	one := func() {
		if answer, err := call(ctx); err == nil {
			select {
			case answers <- answer:
			case <-ctx.Done():
			}
		}
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		go one()
		select {
		case answer := <-answers:
			return answer, nil
		case <-ticker.C:
		case <-ctx.Done():
			var none T
			return none, ctx.Err()
		}
	}
}
