package main

import (
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-lock/holdfast/bench/load"
	"github.com/holdfast-lock/holdfast/bench/lock"
	"github.com/holdfast-lock/holdfast/bench/report"
)

// batch is how many mutexes a batch guards, and batches how many come at once.
const (
	batch   = 100
	batches = 16
)

// guards measures renewals, one at a time and in batches.
func (b *bench) guards() error {
	const workers = 64
	measure := fmt.Sprintf("guard, %d workers", workers)
	inBatchesOf := fmt.Sprintf("guard, %d × batches of %d", batches, batch)
	inBatches := func(of string) string { return of + ", batches of 100" }
	sides := []side{b.rawPuts(workers), b.rawBatches(), b.floorCalls(workers, "guard")}
	for _, of := range twins {
		single, err := b.guardSingly(of, workers)
		if err != nil {
			return err
		}
		many, err := b.guardInBatches(of, inBatches(of))
		if err != nil {
			return err
		}
		sides = append(sides, single, many)
	}
	all, err := b.interleave(measure, sides)
	if err != nil {
		return err
	}
	b.add(row(measure, raw+", put", "/s", all[raw].of(perSecond)...))
	b.add(row(measure, httpOnly, "/s", all[httpOnly].of(perSecond)...))
	b.add(row(inBatchesOf, rawBatch, "/s", all[rawBatch].of(perSecond)...))
	single, many := map[string]float64{embedded: 0.75, external: 0.5}, map[string]float64{embedded: 10, external: 8}
	for _, of := range twins {
		v, m := all[of].of(perSecond), all[inBatches(of)].of(perSecond)
		b.add(than(row(measure, of, "/s", v...), v, raw+", put", all[raw].of(perSecond), report.RatioAtLeast(single[of])))
		b.add(than(row(inBatchesOf, of, "/s", m...), m, "single", v, report.RatioAtLeast(many[of])))
	}
	return nil
}

// rawBatch is the limit of a batch: as many puts in one transaction of etcd, of
// values as long as an ownership's.
const rawBatch = "raw etcd, gRPC, puts in one"

func (b *bench) rawBatches() side {
	value := strings.Repeat("v", 300)
	return closed(rawBatch, batches, func(worker int, r *load.Recorder) error {
		ops := make([]clientv3.Op, batch)
		for i := range ops {
			ops[i] = clientv3.OpPut(fmt.Sprintf("/raw/%d/%d", worker, i), value)
		}
		return timedMany(r, batch, func() error {
			_, err := b.etcd.Txn(ctx).Then(ops...).Commit()
			return err
		})
	})
}

// own has somebody own n mutexes for the rest of the measures: an hour.
func (b *bench) own(of, prefix string, n int) ([]lock.Owned, error) {
	c := b.holdfast(of)
	owned := make([]lock.Owned, n)
	for i := range owned {
		owned[i] = lock.Owned{Mutex: fmt.Sprintf("%s-%d", prefix, i), Token: lock.NewToken()}
		if err := c.Acquire(owned[i].Mutex, owned[i].Token, 0, hour, 0); err != nil {
			return nil, err
		}
	}
	return owned, nil
}

func (b *bench) guardSingly(of string, workers int) (side, error) {
	c := b.holdfast(of)
	owned, err := b.own(of, "guarded", workers)
	return closed(of, workers, load.Timed(func(worker int) error {
		return c.Guard(owned[worker].Mutex, owned[worker].Token)
	})), err
}

func (b *bench) guardInBatches(of, name string) (side, error) {
	c := b.holdfast(of)
	owned, err := b.own(of, "batched", batch*batches)
	if err != nil {
		return side{}, err
	}
	var bodies [][]byte
	for i := range batches {
		bodies = append(bodies, lock.Guards(owned[i*batch:(i+1)*batch]))
	}
	return closed(name, batches, func(worker int, r *load.Recorder) error {
		return timedMany(r, batch, func() error { return c.GuardMany(bodies[worker], batch) })
	}), nil
}
