package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-lock/holdfast/bench/load"
	"github.com/holdfast-lock/holdfast/bench/lock"
	"github.com/holdfast-lock/holdfast/bench/report"
)

// crash measures how long after its windows a mutex passes on whose owner is
// heard of no more.
func (b *bench) crash(owners int) error {
	const (
		measure         = "crash of an owner, beyond ttl + transition"
		ttl, transition = time.Second, time.Second
		apart           = 10 * time.Millisecond
	)
	for _, of := range twins {
		c := b.holdfast(of)
		var mu sync.Mutex
		s, err := load.Once(func(r *load.Recorder) error {
			errs := make(chan error, owners)
			for i := range owners {
				mutex := fmt.Sprintf("crashed-%d", i)
				sent := time.Now()
				if err := c.Acquire(mutex, lock.NewToken(), 0, ttl, transition); err != nil {
					return err
				}
				go func() {
					token := lock.NewToken()
					err := c.Acquire(mutex, token, patience, hour, 0)
					mu.Lock()
					r.Record(time.Since(sent) - ttl - transition)
					mu.Unlock()
					if err == nil {
						err = c.Release(mutex, token)
					}
					errs <- err
				}()
				time.Sleep(apart)
			}
			for range owners {
				if err := <-errs; err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("%s, %s: %w", measure, of, err)
		}
		b.add(row(measure+", p50", of, "ms", percentile(50)(s)))
		p99 := row(measure+", p99", of, "ms", percentile(99)(s))
		p99.Goal = report.AtMost(100)
		b.add(p99)
	}
	return nil
}
