package etcdstore

import (
	"cmp"
	"context"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// batchSize is how many guards go into one proposal. etcd allows 128
// operations to a transaction, and with the two comparisons of a guard 126
// nested ones fit.
const batchSize = 100

// GuardMany implements service.Store. What the view has as ours goes into
// nested transactions, each with its own comparisons, about 100 to a proposal;
// what does not, and what fails there, is guarded singly, for the reasons.
func (s *Store) GuardMany(ctx context.Context, reqs []service.GuardRequest) []service.GuardResult {
	results := make([]service.GuardResult, len(reqs))
	first := map[service.GuardRequest]int{}
	arrived := make([]arrival, len(reqs))
	var once []int
	for i, req := range reqs {
		if _, again := first[req]; !again {
			first[req] = i
			once = append(once, i)
			arrived[i].inTime, arrived[i].done = s.view.guarding(req.Mutex, req.Party.Pair)
		}
	}
	err := s.guardAll(ctx, reqs, arrived, results, once)
	for _, i := range once {
		results[i].Err = cmp.Or(err, results[i].Err)
		arrived[i].done(failed(results[i].Err))
	}
	for i, req := range reqs {
		results[i] = results[first[req]]
	}
	return results
}

// guardAll guards those at indexes. With an error it has guarded none.
func (s *Store) guardAll(ctx context.Context, reqs []service.GuardRequest, arrived []arrival, results []service.GuardResult, indexes []int) error {
	over, err := s.allInTurn(ctx, reqs, indexes)
	if err != nil {
		return err
	}
	defer over()
	var single []int
	for chunk := range slices.Chunk(indexes, batchSize) {
		single = append(single, s.guardBatch(reqs, arrived, results, chunk)...)
	}
	for _, i := range single {
		results[i].Ownership, results[i].Err = s.guardUntil(ctx, reqs[i], arrived[i].inTime)
	}
	return nil
}

// allInTurn is inTurn for those at indexes, in an order that is the same for
// every batch, so that no two wait for each other.
func (s *Store) allInTurn(ctx context.Context, reqs []service.GuardRequest, indexes []int) (over func(), err error) {
	var overs []func()
	over = func() {
		for _, end := range overs {
			end()
		}
	}
	sorted := slices.SortedFunc(slices.Values(indexes), func(a, b int) int { return cmp.Compare(reqs[a].Mutex, reqs[b].Mutex) })
	for _, i := range sorted {
		end, err := s.view.inTurn(ctx, reqs[i].Mutex, reqs[i].Party.Pair)
		if err != nil {
			over()
			return nil, err
		}
		overs = append(overs, end)
	}
	return over, nil
}

// arrival is what guarding returned for a guard when it arrived.
type arrival struct {
	inTime bool
	done   func(failed bool)
}

// guardBatch guards those at indexes in one write, and returns which must be
// done singly.
func (s *Store) guardBatch(reqs []service.GuardRequest, arrived []arrival, results []service.GuardResult, indexes []int) (single []int) {
	b := batch{s: s, names: map[service.Name]bool{}}
	defer b.close()
	for _, i := range indexes {
		if !b.add(reqs[i], i, arrived[i].inTime) {
			single = append(single, i)
		}
	}
	if len(b.items) == 0 {
		return single
	}
	done, err := b.commit()
	for n, item := range b.items {
		switch {
		case err != nil && !isRefused(err):
			// Its outcome is unknown as a whole: trying singly would take as
			// long again for each.
			results[item.index].Err = unwritten(item.plan.name, err)
		case err != nil || !done[n]:
			single = append(single, item.index)
		default:
			results[item.index].Ownership = b.owned[n]
		}
	}
	return single
}

// batch is one proposal of guards; one transaction cannot touch a key twice,
// so a mutex is in it once.
type batch struct {
	s     *Store
	names map[service.Name]bool
	items []batchItem
	ops   []clientv3.Op
	owned []service.Ownership
	ends  []func()
}

type batchItem struct {
	index int
	plan  guardPlan
	lease int64
}

// add takes a guard in; false: it must be done singly.
func (b *batch) add(req service.GuardRequest, index int, inTime bool) bool {
	if b.names[req.Mutex] {
		return false
	}
	v := b.s.view.look(req.Mutex, req.Party.Pair, false)
	g := b.s.planGuard(req.Mutex, req.Party.Pair, &v, inTime)
	if !g.owned || g.over || g.reached {
		return false
	}
	_, lease, release, err := b.s.leaseFor(g.o, g.rec.terms())
	if err != nil {
		return false
	}
	b.ends = append(b.ends, release)
	t := &txn{}
	g.compare(b.s, t)
	t.put(b.s.keys.owner(g.name), g.rec, lease)
	b.names[req.Mutex] = true
	b.items = append(b.items, batchItem{index: index, plan: g, lease: lease})
	b.ops = append(b.ops, clientv3.OpTxn(t.cmps, t.ops, nil))
	return true
}

// commit proposes the batch, and returns for each whether it was guarded.
func (b *batch) commit() ([]bool, error) {
	resp, err := b.s.commit(&txn{ops: b.ops})
	if err != nil {
		return nil, err
	}
	done := make([]bool, len(b.items))
	b.owned = make([]service.Ownership, len(b.items))
	for n, item := range b.items {
		if done[n] = resp.Responses[n].GetResponseTxn().GetSucceeded(); done[n] {
			b.owned[n] = b.s.guarded(item.plan, resp.Header.Revision, item.lease)
		}
	}
	return done, nil
}

func (b *batch) close() {
	for _, end := range b.ends {
		end()
	}
}
