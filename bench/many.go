package main

import (
	"fmt"
	"time"

	"github.com/holdfast-lock/holdfast/bench/load"
	"github.com/holdfast-lock/holdfast/bench/lock"
	"github.com/holdfast-lock/holdfast/bench/report"
	"github.com/holdfast-lock/holdfast/bench/rig"
)

// many measures what it takes to keep very many mutexes: all are guarded in
// batches every third of their ttl, and each has to be kept.
func (b *bench) many(mutexes int, lasts time.Duration) error {
	const ttl, every = 30 * time.Second, 10 * time.Second
	measure := fmt.Sprintf("%d mutexes, each guarded every %v", mutexes, every)
	for _, of := range twins {
		c, server := b.holdfast(of), b.rig.Embedded
		if of == external {
			server = b.rig.External
		}
		before, err := server.RSS()
		if err != nil {
			return err
		}
		bodies, err := b.ownMany(c, mutexes, ttl)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", measure, of, err)
		}
		used, err := usage(server.Process, func() error {
			// Every batch is due once in every; one that comes late counts.
			s, err := load.Open(int(time.Duration(len(bodies))*time.Second/every), 8, lasts, cycle(bodies, func(body []byte) error {
				return c.GuardMany(body, batch)
			}))
			if err == nil {
				b.add(row(measure+", a batch takes p99", of, "ms", percentile(99)(s)))
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("%s, %s: not all were kept: %w", measure, of, err)
		}
		after, err := server.RSS()
		if err != nil {
			return err
		}
		kept := row(measure+", kept", of, "", float64(len(bodies)*batch))
		kept.Goal = report.AtLeast(float64(mutexes))
		b.add(kept,
			row(measure+", CPU", of, "% of one core", 100*used),
			row(measure+", memory", of, "MB", float64(after-before)/1e6))
	}
	return nil
}

// ownMany takes mutexes, and guards those that are taken meanwhile, lest the
// first are lost before the last is taken.
func (b *bench) ownMany(c lock.Holdfast, mutexes int, ttl time.Duration) (bodies [][]byte, err error) {
	guarded := time.Now()
	for len(bodies)*batch < mutexes {
		owned := make([]lock.Owned, batch)
		prefix := fmt.Sprintf("many-%d", len(bodies))
		if err := load.Each(batch, func(i int) error {
			owned[i] = lock.Owned{Mutex: fmt.Sprintf("%s-%d", prefix, i), Token: lock.NewToken()}
			return c.Acquire(owned[i].Mutex, owned[i].Token, 0, ttl, 0)
		}); err != nil {
			return nil, err
		}
		bodies = append(bodies, lock.Guards(owned))
		if time.Since(guarded) > ttl/3 {
			for _, body := range bodies {
				if err := c.GuardMany(body, batch); err != nil {
					return nil, err
				}
			}
			guarded = time.Now()
		}
	}
	return bodies, nil
}

// cycle returns what does the next of all, again and again.
func cycle(bodies [][]byte, do func(body []byte) error) func(int) error {
	next := make(chan []byte, len(bodies))
	for _, body := range bodies {
		next <- body
	}
	return func(int) error {
		body := <-next
		defer func() { next <- body }()
		return do(body)
	}
}

// usage returns how many cores a process used meanwhile.
func usage(p *rig.Process, do func() error) (cores float64, err error) {
	before, err := p.CPU()
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	if err := do(); err != nil {
		return 0, err
	}
	took := time.Since(begin)
	after, err := p.CPU()
	return float64(after-before) / float64(took), err
}
