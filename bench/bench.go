package main

import (
	"fmt"
	"os"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/holdfast-lock/holdfast/bench/load"
	"github.com/holdfast-lock/holdfast/bench/lock"
	"github.com/holdfast-lock/holdfast/bench/report"
	"github.com/holdfast-lock/holdfast/bench/rig"
)

// bench is one run of all measures.
type bench struct {
	rig    *rig.Rig
	rounds int
	lasts  time.Duration // of one sample
	report *report.Report

	etcd     *clientv3.Client
	embedded lock.Holdfast
	external lock.Holdfast
	gateway  lock.Gateway
	floor    *lock.HTTP
}

// The names of what is measured.
const (
	raw      = "raw etcd, gRPC"
	embedded = "Holdfast, embedded"
	external = "Holdfast, external"
	httpOnly = "HTTP alone, gin"
)

// twins are the two ways to run Holdfast.
var twins = []string{embedded, external}

func newBench(r *rig.Rig, rounds int, lasts time.Duration) (*bench, error) {
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{r.Etcd.Addr}, Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	return &bench{
		rig: r, rounds: rounds, lasts: lasts, report: report.New(rounds, lasts),
		etcd:     etcd,
		embedded: lock.Holdfast{HTTP: lock.NewHTTP(r.Embedded.Addr)},
		external: lock.Holdfast{HTTP: lock.NewHTTP(r.External.Addr)},
		gateway:  lock.Gateway{HTTP: lock.NewHTTP(r.Etcd.Addr)},
		floor:    lock.NewHTTP(r.Floor.Addr),
	}, nil
}

func (b *bench) holdfast(of string) lock.Holdfast {
	if of == embedded {
		return b.embedded
	}
	return b.external
}

// side is one of several that are compared.
type side struct {
	name string
	run  func(lasts time.Duration) (load.Sample, error)
}

// closed is a side that is measured in a closed loop.
func closed(name string, workers int, op load.Op) side {
	return side{name, func(lasts time.Duration) (load.Sample, error) { return load.Closed(workers, lasts, op) }}
}

// samples are those of one side, in order of the rounds.
type samples []load.Sample

// interleave lets the sides run in turns, so that what happens to the machine
// happens to all of them, each time beginning with another. The first turn
// warms up, and is not counted.
func (b *bench) interleave(measure string, sides []side) (map[string]samples, error) {
	all := make(map[string]samples)
	for round := range b.rounds + 1 {
		for i := range sides {
			s := sides[(i+round)%len(sides)]
			sample, err := s.run(b.lasts)
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", measure, s.name, err)
			}
			if round > 0 {
				all[s.name] = append(all[s.name], sample)
			}
		}
	}
	return all, nil
}

// of returns a figure of each sample.
func (s samples) of(figure func(load.Sample) float64) []float64 {
	var v []float64
	for _, sample := range s {
		v = append(v, figure(sample))
	}
	return v
}

func perSecond(s load.Sample) float64 { return s.PerSecond() }

// percentile returns the figure that is a percentile in milliseconds.
func percentile(q float64) func(load.Sample) float64 {
	return func(s load.Sample) float64 { return float64(s.P(q).Microseconds()) / 1000 }
}

// row returns the row of a measure without anything beside it.
func row(measure, of, unit string, values ...float64) report.Row {
	return report.Row{Measure: measure, Of: of, Unit: unit, Value: report.NewSpread(values)}
}

// than puts the rounds of another side beside those of the row.
func than(r report.Row, values []float64, beside string, others []float64, goal report.Goal) report.Row {
	var ratios []float64
	for i := range values {
		ratios = append(ratios, values[i]/others[i])
	}
	r.Beside, r.Ratio, r.Goal = beside, report.NewSpread(ratios), goal
	return r
}

// add puts rows into the report, and shows them.
func (b *bench) add(rows ...report.Row) {
	b.report.Rows = append(b.report.Rows, rows...)
	for _, r := range rows {
		fmt.Fprintf(os.Stderr, "%-62s %-28s %s %s  %s\n", r.Measure, r.Of, r.Value, r.Unit, r.Ratio)
	}
}

// each adds a row for each side, in order.
func (b *bench) each(measure, unit string, sides []side, all map[string]samples, figure func(load.Sample) float64) {
	for _, s := range sides {
		b.add(row(measure, s.name, unit, all[s.name].of(figure)...))
	}
}
