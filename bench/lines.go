package main

import (
	"fmt"
	"time"

	"github.com/holdfast-lock/holdfast/bench/report"
	"github.com/holdfast-lock/holdfast/bench/rig"
)

// held measures what those who wait cost a replica.
func (b *bench) held(waiters int) error {
	measure := fmt.Sprintf("%d waiters on one replica", waiters)
	least, err := b.floorHeld(waiters)
	if err != nil {
		return fmt.Errorf("%s, %s: %w", measure, httpOnly, err)
	}
	b.add(row(measure+", memory each", httpOnly, "KB", least/1000))
	for _, of := range twins {
		server := b.server(of)
		before, err := server.RSS()
		if err != nil {
			return err
		}
		c, err := gather(server.Addr, "held", waiters, 100)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", measure, of, err)
		}
		after, err := server.RSS()
		if err == nil {
			err = b.heldRows(measure, of, float64(after-before)/float64(waiters))
		}
		c.disperse()
		if err != nil {
			return fmt.Errorf("%s, %s: %w", measure, of, err)
		}
	}
	return nil
}

func (b *bench) heldRows(measure, of string, bytesEach float64) error {
	memory := row(measure+", memory each", of, "KB", bytesEach/1000)
	memory.Goal = report.AtMost(25)
	s, err := b.holdfastHandOver(of, 50*time.Millisecond, 40).run(0)
	if err != nil {
		return err
	}
	p50 := row(measure+", hand-over p50 of another mutex", of, "ms", percentile(50)(s))
	p50.Goal = report.AtMost(10)
	b.add(memory, p50)
	return nil
}

// lines measures hand-overs down lines of different lengths.
func (b *bench) lines(lengths ...int) error {
	const times = 50
	for _, of := range twins {
		var first []float64
		for i, n := range lengths {
			measure := fmt.Sprintf("hand-over p50, %d in line", n)
			ms, err := passesDown(b.server(of).Addr, n, times)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", measure, of, err)
			}
			r := row(measure, of, "ms", ms)
			if i == 0 {
				first = []float64{ms}
			} else {
				r = than(r, []float64{ms}, fmt.Sprintf("%d in line", lengths[0]), first, report.RatioAtMost(1.5))
			}
			b.add(r)
		}
	}
	return nil
}

// passesDown returns the median of so many hand-overs, in milliseconds, in
// crowds of n.
func passesDown(addr string, n, times int) (float64, error) {
	var all []float64
	for i := 0; len(all) < times; i++ {
		c, err := gather(addr, fmt.Sprintf("line-%d-%d", n, i), n, 1)
		if err != nil {
			return 0, err
		}
		took, err := c.passes(min(n, times))
		c.disperse()
		if err != nil {
			return 0, err
		}
		for _, d := range took {
			all = append(all, float64(d.Microseconds())/1000)
		}
	}
	return report.NewSpread(all).Median, nil
}

func (b *bench) server(of string) *rig.Service {
	if of == embedded {
		return b.rig.Embedded
	}
	return b.rig.External
}
