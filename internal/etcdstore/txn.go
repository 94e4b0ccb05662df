package etcdstore

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// txn is one transaction being put together: it happens only if all of cmps
// hold. If not, the decision is read for anew, and made again: to have etcd read
// on the way would cost one range more for each key, in every transaction.
type txn struct {
	mutex service.Name // all that it writes is of this one; "" = it is sent alone
	cmps  []clientv3.Cmp
	ops   []clientv3.Op

	again bool // it may have been sent more than once
}

// unchanged: the key is still at this revision; 0 = it does not exist.
func (t *txn) unchanged(key string, rev int64) {
	t.compare(key, pb.Compare_MOD, pb.Compare_EQUAL, rev)
}

// exists: the key exists.
func (t *txn) exists(key string) { t.compare(key, pb.Compare_CREATE, pb.Compare_GREATER, 0) }

// absent: the key does not exist.
func (t *txn) absent(key string) { t.compare(key, pb.Compare_CREATE, pb.Compare_EQUAL, 0) }

// nothingNewer: nothing under the prefix is newer than rev. True of an empty
// range, false after a put there, blind to deletions.
func (t *txn) nothingNewer(prefix string, rev int64) {
	t.compare(prefix, pb.Compare_MOD, pb.Compare_LESS, rev+1).RangeEnd = []byte(clientv3.GetPrefixRangeEnd(prefix))
}

// notSince: the key was not written after rev. It need not exist.
func (t *txn) notSince(key string, rev int64) {
	t.compare(key, pb.Compare_MOD, pb.Compare_LESS, rev+1)
}

// compare adds a comparison of a revision of key. clientv3.Compare would make a
// copy of it on the way, which is most of its cost.
func (t *txn) compare(key string, target pb.Compare_CompareTarget, result pb.Compare_CompareResult, rev int64) *pb.Compare {
	t.cmps = append(t.cmps, clientv3.Cmp{})
	c := t.cmps[len(t.cmps)-1].GetCompare()
	c.Key, c.Target, c.Result = []byte(key), target, result
	if target == pb.Compare_CREATE {
		c.TargetUnion = &pb.Compare_CreateRevision{CreateRevision: rev}
	} else {
		c.TargetUnion = &pb.Compare_ModRevision{ModRevision: rev}
	}
	return c
}

// dead: none of these replicas is alive.
func (s *Store) dead(t *txn, ids []string) {
	for _, id := range ids {
		t.absent(s.keys.replica(id))
	}
}

func (t *txn) put(key string, record any, lease int64) {
	if lease == 0 {
		t.ops = append(t.ops, clientv3.OpPut(key, encode(record)))
		return
	}
	t.ops = append(t.ops, clientv3.OpPut(key, encode(record), clientv3.WithLease(clientv3.LeaseID(lease))))
}

func (t *txn) delete(key string) { t.ops = append(t.ops, clientv3.OpDelete(key)) }

// bounded returns a context for one etcd call. It does not end with a client's
// request: a request that was sent has an outcome, and somebody must learn it.
func (s *Store) bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeout(s.ctx, s.cfg.Timeout)
}

// send sends t now, and again where there is no answer.
func (s *Store) send(t *txn) (*clientv3.TxnResponse, error) {
	ctx, cancel := s.bounded()
	defer cancel()
	begin := time.Now()
	defer func() { t.again = time.Since(begin) >= s.hedgeEvery() }()
	return hedged(ctx, s.hedgeEvery(), func(ctx context.Context) (*clientv3.TxnResponse, error) { return t.commit(ctx, s.cli) })
}

// once commits t, and sends it but once: for those who could not tell what it
// has done from what was there before.
func (s *Store) once(t *txn) (*clientv3.TxnResponse, error) {
	ctx, cancel := s.bounded()
	defer cancel()
	return t.commit(ctx, s.cli)
}

func (t *txn) commit(ctx context.Context, cli *clientv3.Client) (*clientv3.TxnResponse, error) {
	return cli.Txn(ctx).If(t.cmps...).Then(t.ops...).Commit()
}

// read commits ops that only read, linearizably.
func (s *Store) read(ops ...clientv3.Op) (*clientv3.TxnResponse, error) {
	return s.commit(&txn{ops: ops})
}

// reading returns the operations that read all of a mutex, who is alive, and
// what is settled for pair unless that is "".
func (s *Store) reading(name service.Name, pair service.Pair) []clientv3.Op {
	ops := []clientv3.Op{
		clientv3.OpGet(s.keys.mutex(name), clientv3.WithPrefix()),
		clientv3.OpGet(s.keys.declared(name)),
		clientv3.OpGet(s.keys.history(name)),
		clientv3.OpGet(s.keys.replicas(), clientv3.WithPrefix()),
	}
	if pair != "" {
		ops = append(ops, clientv3.OpGet(s.keys.settled(name, pair)))
	}
	return ops
}

// learn takes the answer of reading into the view, and returns what it tells of
// pair.
func (s *Store) learn(name service.Name, pair service.Pair, resp *clientv3.TxnResponse) (standing, error) {
	ranges := make([][]*mvccpb.KeyValue, len(resp.Responses))
	for i, r := range resp.Responses {
		ranges[i] = r.GetResponseRange().GetKvs()
	}
	rev := resp.Header.Revision
	s.view.mu.Lock()
	defer s.view.mu.Unlock()
	s.view.applyReplicas(s.keys, ranges[3], rev)
	err := s.view.applyMutex(s.keys, name, ranges[0], ranges[1], ranges[2], rev)
	if err != nil || pair == "" {
		return standing{}, err
	}
	return s.newStanding(name, pair, ranges[0], ranges[4])
}

// refresh reads all of a mutex, linearizably, into the view.
func (s *Store) refresh(name service.Name, pair service.Pair) (standing, error) {
	resp, err := s.read(s.reading(name, pair)...)
	if err != nil {
		return standing{}, unread(name, err)
	}
	set, err := s.learn(name, pair, resp)
	if err != nil {
		return standing{}, unread(name, err)
	}
	return set, nil
}

// reread reads a mutex after a comparison of t has failed. Where t may have been
// sent twice, it may be its first copy that made the second fail: without an
// answer, nobody knows.
func (s *Store) reread(t *txn, pair service.Pair) (standing, error) {
	set, err := s.refresh(t.mutex, pair)
	if err != nil && t.again {
		err = unknown(t.mutex, err)
	}
	return set, err
}

// standing is what one read told of a party, all as of the same revision. A
// refusal rests on one, and not on a view that has moved on since: what the
// party had may have ended after what is settled was read.
type standing struct {
	read  bool // false: nothing was read yet
	owns  bool
	waits bool           // it has a place in line
	rec   *settledRecord // how its ownership or wait ended, nil when it did not lately
	rev   int64          // of rec, 0 for none
}

func (s *Store) newStanding(name service.Name, pair service.Pair, mutex, settled []*mvccpb.KeyValue) (standing, error) {
	st := standing{read: true}
	for _, kv := range mutex {
		switch string(kv.Key) {
		case s.keys.owner(name):
			rec, err := decode[ownerRecord](kv.Value)
			if err != nil {
				return standing{}, keyError(kv, err)
			}
			st.owns = rec.Pair == pair
		case s.keys.entry(name, pair):
			st.waits = true
		}
	}
	if len(settled) > 0 {
		rec, err := decode[settledRecord](settled[0].Value)
		if err != nil {
			return standing{}, keyError(settled[0], err)
		}
		st.rec, st.rev = &rec, settled[0].ModRevision
	}
	return st, nil
}

// isNothing reports whether the party neither owned nor waited.
func (s standing) isNothing() bool { return s.read && !s.owns && !s.waits }

func (s standing) spent() bool { return s.rec.spent() }

// ending returns how it ended, for a refusal.
func (s standing) ending() service.Ending {
	if s.rec == nil {
		return service.EndedUnknown
	}
	return s.rec.Ended
}

func (s standing) fence() service.Fence {
	if s.rec == nil {
		return 0
	}
	return s.rec.Fence
}
