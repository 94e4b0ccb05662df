// Package load puts load on something and says how long it took: in a closed
// loop for throughput, in an open one for latency.
package load

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sync/errgroup"
)

// Sample is what one run of one load saw.
type Sample struct {
	Ops     int64         // that were recorded
	Took    time.Duration // from the first to the last
	latency *hdrhistogram.Histogram
}

// PerSecond is the throughput.
func (s Sample) PerSecond() float64 { return float64(s.Ops) / s.Took.Seconds() }

// P returns a percentile of the latency, 0 < q <= 100.
func (s Sample) P(q float64) time.Duration {
	return time.Duration(s.latency.ValueAtPercentile(q)) * time.Microsecond
}

// newHistogram counts microseconds up to a minute, with three digits.
func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, 60_000_000, 3) }

// Recorder takes the latencies of one worker.
type Recorder struct {
	ops     int64
	latency *hdrhistogram.Histogram
}

func newRecorder() *Recorder { return &Recorder{latency: newHistogram()} }

// Record takes in one operation that took d.
func (r *Recorder) Record(d time.Duration) { r.RecordMany(1, d) }

// RecordMany takes in n operations that took d together.
func (r *Recorder) RecordMany(n int, d time.Duration) {
	r.ops += int64(n)
	// Only what is longer than a minute is refused: it counts as that.
	if r.latency.RecordValue(max(1, d.Microseconds())) != nil {
		_ = r.latency.RecordValue(r.latency.HighestTrackableValue())
	}
}

// Op is what a worker does again and again; it records what it wants counted.
type Op func(worker int, r *Recorder) error

// Timed is an Op that counts all of do.
func Timed(do func(worker int) error) Op {
	return func(worker int, r *Recorder) error {
		begin := time.Now()
		if err := do(worker); err != nil {
			return err
		}
		r.Record(time.Since(begin))
		return nil
	}
}

// Closed has each worker begin its next operation when the last has ended, for
// as long as lasts. The first error ends it.
func Closed(workers int, lasts time.Duration, op Op) (Sample, error) {
	begin := time.Now()
	return run(workers, func(worker int, r *Recorder) (more bool, err error) {
		if time.Since(begin) >= lasts {
			return false, nil
		}
		return true, op(worker, r)
	})
}

// Open begins perSecond operations a second, whether those before have ended
// or not, for as long as lasts, with so many on their way at most. A latency
// counts from when its operation should have begun: one that is slow makes
// those slow that come after it.
func Open(perSecond, atOnce int, lasts time.Duration, do func(worker int) error) (Sample, error) {
	begin := time.Now()
	var next atomic.Int64
	return run(atOnce, func(worker int, r *Recorder) (more bool, err error) {
		at := time.Duration(next.Add(1)-1) * time.Second / time.Duration(perSecond)
		if at >= lasts {
			return false, nil
		}
		due := begin.Add(at)
		time.Sleep(time.Until(due))
		if err := do(worker); err != nil {
			return false, err
		}
		r.Record(time.Since(due))
		return true, nil
	})
}

// run has workers take turns until each has no more, and adds up what they
// recorded.
func run(workers int, turn func(worker int, r *Recorder) (more bool, err error)) (Sample, error) {
	var wg sync.WaitGroup
	recorders := make([]*Recorder, workers)
	errs := make(chan error, workers)
	var failed atomic.Bool
	begin := time.Now()
	for i := range workers {
		recorders[i] = newRecorder()
		wg.Go(func() {
			for more := true; more && !failed.Load(); {
				var err error
				if more, err = turn(i, recorders[i]); err != nil {
					errs <- fmt.Errorf("worker %d: %w", i, err)
					failed.Store(true)
					return
				}
			}
		})
	}
	wg.Wait()
	total := Sample{Took: time.Since(begin), latency: newHistogram()}
	for _, r := range recorders {
		total.Ops += r.ops
		total.latency.Merge(r.latency)
	}
	select {
	case err := <-errs:
		return total, err
	default:
		return total, nil
	}
}

// Once has one worker do something, once.
func Once(do func(r *Recorder) error) (Sample, error) {
	done := false
	return run(1, func(_ int, r *Recorder) (more bool, err error) {
		if done {
			return false, nil
		}
		done = true
		return true, do(r)
	})
}

// Each does something n times at once, and returns the first error.
func Each(n int, do func(i int) error) error {
	var g errgroup.Group
	for i := range n {
		g.Go(func() error { return do(i) })
	}
	return g.Wait()
}
