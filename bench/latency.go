package main

import (
	"fmt"
	"time"

	"github.com/holdfast-lock/holdfast/bench/load"
	"github.com/holdfast-lock/holdfast/bench/lock"
	"github.com/holdfast-lock/holdfast/bench/report"
)

// acquireLatency measures how long one acquire takes when nothing else is done.
func (b *bench) acquireLatency() error {
	const measure = "acquire p50, 1 worker"
	sides := []side{b.rawPuts(1), b.floorCalls(1, "acquire"), b.acquires(embedded), b.acquires(external)}
	all, err := b.interleave(measure, sides)
	if err != nil {
		return err
	}
	p50 := percentile(50)
	b.add(row(measure, raw+", put", "ms", all[raw].of(p50)...))
	b.add(row(measure, httpOnly+", one call", "ms", all[httpOnly].of(p50)...))
	most := map[string]float64{embedded: 1.1, external: 1.8}
	for _, of := range twins {
		v := all[of].of(p50)
		b.add(than(row(measure, of, "ms", v...), v, raw+", put", all[raw].of(p50), report.RatioAtMost(most[of])))
	}
	return nil
}

// rawPuts are one write each.
func (b *bench) rawPuts(workers int) side {
	return closed(raw, workers, load.Timed(func(worker int) error {
		_, err := b.etcd.Put(ctx, fmt.Sprintf("/raw/%d", worker), "value")
		return err
	}))
}

// acquires times the acquire alone; what is released in between is not counted.
func (b *bench) acquires(of string) side {
	c := b.holdfast(of)
	return closed(of, 1, func(worker int, r *load.Recorder) error {
		mutex, token := fmt.Sprintf("own-%d", worker), lock.NewToken()
		begin := time.Now()
		if err := c.Acquire(mutex, token, 0, 0, 0); err != nil {
			return err
		}
		r.Record(time.Since(begin))
		return c.Release(mutex, token)
	})
}

// steadyLatency measures latencies under a load that comes whether the answers
// do or not: what clients that do not know of each other see.
func (b *bench) steadyLatency(perSecond int) error {
	const atOnce = 512
	measure := fmt.Sprintf("acquire + release, %d/s come", perSecond)
	open := func(s side, do func(worker int) error) side {
		s.run = func(lasts time.Duration) (load.Sample, error) { return load.Open(perSecond, atOnce, lasts, do) }
		return s
	}
	sides := []side{open(side{name: raw}, func(worker int) error {
		key := fmt.Sprintf("/raw/%d", worker)
		if _, err := b.etcd.Put(ctx, key, "value"); err != nil {
			return err
		}
		_, err := b.etcd.Delete(ctx, key)
		return err
	})}
	for _, of := range twins {
		c := b.holdfast(of)
		sides = append(sides, open(side{name: of}, func(worker int) error {
			mutex, token := fmt.Sprintf("own-%d", worker), lock.NewToken()
			if err := c.Acquire(mutex, token, 0, 0, 0); err != nil {
				return err
			}
			return c.Release(mutex, token)
		}))
	}
	all, err := b.interleave(measure, sides)
	if err != nil {
		return err
	}
	for _, q := range []float64{50, 99, 99.9} {
		b.each(fmt.Sprintf("%s, p%v", measure, q), "ms", sides, all, percentile(q))
	}
	return nil
}
