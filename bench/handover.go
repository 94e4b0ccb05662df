package main

import (
	"fmt"
	"time"

	"github.com/holdfast-lock/holdfast/bench/load"
	"github.com/holdfast-lock/holdfast/bench/lock"
	"github.com/holdfast-lock/holdfast/bench/report"
)

const (
	hour = time.Hour
	// patience is how long those wait who get their turn.
	patience = 45 * time.Second
)

// timedMany records n operations that were one call.
func timedMany(r *load.Recorder, n int, do func() error) error {
	begin := time.Now()
	if err := do(); err != nil {
		return err
	}
	r.RecordMany(n, time.Since(begin))
	return nil
}

// handOver measures from sending a release until the next owner has its
// answer, who has waited for as long as joined.
func (b *bench) handOver(joined time.Duration, times int) error {
	measure := fmt.Sprintf("hand-over p50, waiter joined %v before", joined)
	sides := []side{b.holdfastHandOver(embedded, joined, times), b.holdfastHandOver(external, joined, times), b.gatewayHandOver(joined, times)}
	all, err := b.interleave(measure, sides)
	if err != nil {
		return err
	}
	p50 := percentile(50)
	most := map[string]float64{embedded: 1, external: 2}
	for _, of := range twins {
		r := row(measure, of, "ms", all[of].of(p50)...)
		r.Goal = report.AtMost(most[of])
		b.add(r)
	}
	b.add(row(measure, gatewayShared, "ms", all[gatewayShared].of(p50)...))
	return nil
}

// passes times hand-overs: next waits, and returns when it owns; release lets
// it. Each time the one who owns gives it back afterwards.
func passes(times int, joined time.Duration, first, next, release func() error) (load.Sample, error) {
	return load.Once(func(r *load.Recorder) error {
		for range times {
			if err := first(); err != nil {
				return err
			}
			owns := make(chan error, 1)
			var at time.Time
			go func() {
				err := next()
				at = time.Now()
				owns <- err
			}()
			time.Sleep(joined)
			begin := time.Now()
			if err := release(); err != nil {
				return err
			}
			if err := <-owns; err != nil {
				return err
			}
			r.Record(at.Sub(begin))
		}
		return nil
	})
}

func (b *bench) holdfastHandOver(of string, joined time.Duration, times int) side {
	c := b.holdfast(of)
	mutex := fmt.Sprintf("handed-over-%v", joined)
	var owner, waiter string
	return side{of, func(time.Duration) (load.Sample, error) {
		return passes(times, joined,
			func() error {
				if waiter != "" {
					if err := c.Release(mutex, waiter); err != nil {
						return err
					}
				}
				owner, waiter = lock.NewToken(), lock.NewToken()
				return c.Acquire(mutex, owner, 0, hour, 0)
			},
			func() error { return c.Acquire(mutex, waiter, patience, hour, 0) },
			func() error { return c.Release(mutex, owner) })
	}}
}

func (b *bench) gatewayHandOver(joined time.Duration, times int) side {
	return side{gatewayShared, func(time.Duration) (load.Sample, error) {
		one, err := b.gateway.Grant()
		if err != nil {
			return load.Sample{}, err
		}
		other, err := b.gateway.Grant()
		if err != nil {
			return load.Sample{}, err
		}
		var owns, waits string
		s, err := passes(times, joined,
			func() (err error) {
				if waits != "" {
					if err := b.gateway.Unlock(waits); err != nil {
						return err
					}
				}
				owns, err = b.gateway.Lock("handed-over", one)
				return err
			},
			func() (err error) { waits, err = b.gateway.Lock("handed-over", other); return err },
			func() error { return b.gateway.Unlock(owns) })
		if err != nil {
			return s, err
		}
		return s, b.gateway.Unlock(waits)
	}}
}

// contended measures how often a mutex changes its owner that 16 want.
func (b *bench) contended(peers bool) error {
	const workers = 16
	measure := fmt.Sprintf("hand-overs of one mutex, %d workers", workers)
	sides := []side{b.rawPuts(1), b.contend(embedded, workers), b.contend(external, workers)}
	if peers {
		leases := make([]string, workers)
		for i := range leases {
			var err error
			if leases[i], err = b.gateway.Grant(); err != nil {
				return err
			}
		}
		sides = append(sides, closed(gatewayShared, workers, load.Timed(func(worker int) error {
			key, err := b.gateway.Lock("contended", leases[worker])
			if err != nil {
				return err
			}
			return b.gateway.Unlock(key)
		})))
	}
	all, err := b.interleave(measure, sides)
	if err != nil {
		return err
	}
	// A hand-over is one write: how many there can be depends on the disk. In
	// hand-overs for each time that one put takes: 3,500/s at 0.18 ms is 0.63.
	puts := all[raw].of(func(s load.Sample) float64 { return 1000 / percentile(50)(s) })
	b.add(row(measure, raw+", 1 ÷ p50 of a put", "/s", puts...))
	for _, of := range twins {
		atLeast := map[string]float64{embedded: 3500, external: 2200}[of] * 0.18e-3
		v := all[of].of(perSecond)
		b.add(than(row(measure, of, "/s", v...), v, "1 ÷ p50 of a put", puts, report.RatioAtLeast(atLeast)))
	}
	if peers {
		b.add(row(measure, gatewayShared, "/s", all[gatewayShared].of(perSecond)...))
	}
	return nil
}

func (b *bench) contend(of string, workers int) side {
	c := b.holdfast(of)
	return closed(of, workers, load.Timed(func(int) error {
		token := lock.NewToken()
		if err := c.Acquire("contended", token, patience, hour, 0); err != nil {
			return err
		}
		return c.Release("contended", token)
	}))
}
