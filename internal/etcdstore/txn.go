package etcdstore

import (
	"context"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// txn is one transaction being put together: it happens only if all of cmps
// hold; if not, otherwise reads what the next decision needs.
type txn struct {
	cmps      []clientv3.Cmp
	ops       []clientv3.Op
	otherwise []clientv3.Op
}

// unchanged: the key is still at this revision; 0 = it does not exist.
func (t *txn) unchanged(key string, rev int64) {
	t.cmps = append(t.cmps, clientv3.Compare(clientv3.ModRevision(key), "=", rev))
}

// exists: the key exists.
func (t *txn) exists(key string) {
	t.cmps = append(t.cmps, clientv3.Compare(clientv3.CreateRevision(key), ">", 0))
}

// absent: the key does not exist.
func (t *txn) absent(key string) {
	t.cmps = append(t.cmps, clientv3.Compare(clientv3.CreateRevision(key), "=", 0))
}

// nothingNewer: nothing under the prefix is newer than rev. True of an empty
// range, false after a put there, blind to deletions.
func (t *txn) nothingNewer(prefix string, rev int64) {
	t.cmps = append(t.cmps, clientv3.Compare(clientv3.ModRevision(prefix), "<", rev+1).WithPrefix())
}

// dead: none of these replicas is alive.
func (s *Store) dead(t *txn, ids []string) {
	for _, id := range ids {
		t.absent(s.keys.replica(id))
	}
}

// notSince: the key was not written after rev. It need not exist.
func (t *txn) notSince(key string, rev int64) {
	t.cmps = append(t.cmps, clientv3.Compare(clientv3.ModRevision(key), "<", rev+1))
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

// commit commits t. It may be sent twice: both cannot happen, for what the
// first wrote makes the comparisons of the second fail. Then that one may be
// answered, and the decision that is made again finds what the first has done.
func (s *Store) commit(t *txn) (*clientv3.TxnResponse, error) {
	ctx, cancel := s.bounded()
	defer cancel()
	return hedged(ctx, s.hedgeAfter(), func(ctx context.Context) (*clientv3.TxnResponse, error) { return t.commit(ctx, s.cli) })
}

// once commits t, and sends it but once: for those who could not tell what it
// has done from what was there before.
func (s *Store) once(t *txn) (*clientv3.TxnResponse, error) {
	ctx, cancel := s.bounded()
	defer cancel()
	return t.commit(ctx, s.cli)
}

func (t *txn) commit(ctx context.Context, cli *clientv3.Client) (*clientv3.TxnResponse, error) {
	return cli.Txn(ctx).If(t.cmps...).Then(t.ops...).Else(t.otherwise...).Commit()
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

// learn takes the answer of reading into the view, and returns what is settled.
func (s *Store) learn(name service.Name, resp *clientv3.TxnResponse) (settled, error) {
	ranges := make([][]*mvccpb.KeyValue, len(resp.Responses))
	for i, r := range resp.Responses {
		ranges[i] = r.GetResponseRange().GetKvs()
	}
	rev := resp.Header.Revision
	s.view.mu.Lock()
	defer s.view.mu.Unlock()
	s.view.applyReplicas(s.keys, ranges[3], rev)
	err := s.view.applyMutex(s.keys, name, ranges[0], ranges[1], ranges[2], rev)
	if err != nil {
		return settled{}, err
	}
	if len(ranges) < 5 {
		return settled{}, nil
	}
	return newSettled(ranges[4])
}

// refresh reads all of a mutex, linearizably, into the view.
func (s *Store) refresh(name service.Name, pair service.Pair) (settled, error) {
	resp, err := s.read(s.reading(name, pair)...)
	if err != nil {
		return settled{}, unread(name, err)
	}
	set, err := s.learn(name, resp)
	if err != nil {
		return settled{}, unread(name, err)
	}
	return set, nil
}

// settled is what is known of how a party's ownership or wait ended; rev is 0
// when nothing is.
type settled struct {
	rec *settledRecord
	rev int64
}

func newSettled(kvs []*mvccpb.KeyValue) (settled, error) {
	if len(kvs) == 0 {
		return settled{}, nil
	}
	rec, err := decode[settledRecord](kvs[0].Value)
	if err != nil {
		return settled{}, err
	}
	return settled{rec: &rec, rev: kvs[0].ModRevision}, nil
}

func (s settled) spent() bool { return s.rec.spent() }

// ending returns how it ended, for a refusal.
func (s settled) ending() service.Ending {
	if s.rec == nil {
		return service.EndedUnknown
	}
	return s.rec.Ended
}

func (s settled) fence() service.Fence {
	if s.rec == nil {
		return 0
	}
	return s.rec.Fence
}
