package etcdstore

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// catchUp yields what happened since r.after, up to a revision that the
// subscriber goes on from. false: the consumer has ended.
func (r *reader) catchUp(ctx context.Context, upTo int64) bool {
	if int64(r.after.Revision) > upTo {
		return true
	}
	list, err := r.past(ctx, upTo)
	switch {
	case is(err, rpctypes.ErrCompacted):
		return r.reset()
	case err != nil:
		r.yield(service.Event{}, err)
		return false
	}
	for _, ev := range list {
		if r.isNews(ev) && !r.yield(ev, nil) {
			return false
		}
	}
	return true
}

// past reads a mutex's events in [r.after, upTo] from etcd's history. The two
// watches are short-lived, and on a stream of their own: on the store's they
// would hold back its progress.
func (r *reader) past(ctx context.Context, upTo int64) ([]service.Event, error) {
	wctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(ctx, "holdfast-events", string(r.name)), r.s.cfg.Timeout)
	defer cancel()
	var raw []*clientv3.Event
	for _, prefix := range []string{r.s.keys.mutex(r.name), r.s.keys.settledOf(r.name)} {
		list, err := r.s.replay(wctx, prefix, int64(r.after.Revision), upTo)
		if err != nil {
			return nil, err
		}
		raw = append(raw, list...)
	}
	slices.SortStableFunc(raw, func(a, b *clientv3.Event) int { return cmp.Compare(a.Kv.ModRevision, b.Kv.ModRevision) })
	return r.derive(raw)
}

// replay reads the writes under a prefix in [from, upTo]: a watch that is
// asked for its progress once it has nothing more to tell.
func (s *Store) replay(ctx context.Context, prefix string, from, upTo int64) ([]*clientv3.Event, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changes := s.cli.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(from), clientv3.WithPrevKV())
	ask := time.NewTicker(20 * time.Millisecond)
	defer ask.Stop()
	var list []*clientv3.Event
	for {
		select {
		case resp, ok := <-changes:
			if err := resp.Err(); err != nil || !ok {
				return nil, errors.Join(err, ctx.Err())
			}
			for _, ev := range resp.Events {
				if ev.Kv.ModRevision > upTo {
					return list, nil
				}
				list = append(list, ev)
			}
			if resp.IsProgressNotify() && resp.Header.Revision >= upTo {
				return list, nil
			}
		case <-ask.C:
			_ = s.cli.RequestProgress(ctx)
		case <-ctx.Done():
			return nil, unread("", ctx.Err())
		}
	}
}

// derive makes events of raw writes, as takeRevision does of the watch's.
func (r *reader) derive(raw []*clientv3.Event) ([]service.Event, error) {
	var list []service.Event
	var before ownerSeen
	known := false
	for len(raw) > 0 {
		rev := raw[0].Kv.ModRevision
		var h happening
		for ; len(raw) > 0 && raw[0].Kv.ModRevision == rev; raw = raw[1:] {
			kind, _, tail := r.s.keys.parse(string(raw[0].Kv.Key))
			if kind == keyOwner && !known {
				seen, err := seenBefore(raw[0])
				if err != nil {
					return nil, err
				}
				before, known = seen, true
			}
			place, err := placeBefore(kind, raw[0])
			if err != nil {
				return nil, err
			}
			if err := h.note(place, kind, service.Pair(tail), raw[0]); err != nil {
				return nil, err
			}
		}
		events, after := h.events(r.name, before, rev)
		list, before = append(list, events...), after
	}
	return list, nil
}

// seenBefore returns the ownership that a write of the owner's key replaced.
func seenBefore(ev *clientv3.Event) (ownerSeen, error) {
	if ev.PrevKv == nil {
		return ownerSeen{}, nil
	}
	rec, err := decode[ownerRecord](ev.PrevKv.Value)
	if err != nil {
		return ownerSeen{}, keyError(ev.PrevKv, err)
	}
	fence := rec.Fence
	if fence == 0 {
		fence = service.Fence(ev.PrevKv.ModRevision)
	}
	return ownerSeen{contender: rec.Contender, fence: fence}, nil
}

// placeBefore returns the place that a deletion took away.
func placeBefore(kind keyKind, ev *clientv3.Event) (*entryRecord, error) {
	if kind != keyEntry || ev.Type != mvccpb.DELETE || ev.PrevKv == nil {
		return nil, nil
	}
	rec, err := decode[entryRecord](ev.PrevKv.Value)
	if err != nil {
		return nil, keyError(ev.PrevKv, err)
	}
	return &rec, nil
}
