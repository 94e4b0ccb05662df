package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-lock/holdfast/internal/service"
)

var errSilent = errors.New("the watch fell silent")

// errReplaced is for good: what was seen of another etcd, or of what was lost
// with a restore, cannot be told from what is.
var errReplaced = errors.New("etcd is another cluster than before, or was restored from a snapshot: start this replica anew")

// watch keeps the view, until the store stops: one watch over the prefix,
// opened again with a new list whenever it fails or falls silent. ready is
// closed when the view was whole for the first time.
func (s *Store) watch(ready chan<- struct{}) {
	for again := false; ; {
		err := s.follow(func() {
			again = false
			if ready != nil {
				close(ready)
				ready = nil
			}
		})
		if s.ctx.Err() != nil {
			return
		}
		if !again { // once in an outage
			s.log.Warn("the watch is opened again", "cause", err)
		}
		again = true
		s.sleep(jitter(200 * time.Millisecond))
	}
}

// follow opens the watch, lists, and takes in what comes.
//
// The watch is opened without a revision, and before the list: one opened at
// the revision of a list would land among etcd's unsynchronised watchers and
// be served by a 100 ms tick. What arrives twice does no harm.
func (s *Store) follow(listed func()) error {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	// Watch itself waits for etcd, for as long as its context lives.
	giveUp := time.AfterFunc(s.cfg.Timeout, cancel)
	changes := s.cli.Watch(clientv3.WithRequireLeader(ctx), s.keys.prefix, clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	resp, ok := <-changes
	if err := resp.Err(); err != nil || !ok || !giveUp.Stop() {
		return fmt.Errorf("open: %w", errors.Join(err, ctx.Err()))
	}
	if err := s.list(); err != nil {
		return fmt.Errorf("list: %w", err)
	}
	s.view.hear()
	listed()
	go s.askProgress(ctx)

	check := time.NewTicker(silence / 4)
	defer check.Stop()
	for {
		select {
		case resp, ok := <-changes:
			if err := resp.Err(); err != nil || !ok {
				return fmt.Errorf("watch: %w", errors.Join(err, ctx.Err()))
			}
			s.takeIn(resp)
		case <-check.C:
			if !s.view.current() && len(changes) == 0 {
				return errSilent
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// askProgress asks once a second, so that silence means something.
func (s *Store) askProgress(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			// The metadata must be the watch's, for it chooses the stream.
			_ = s.cli.RequestProgress(clientv3.WithRequireLeader(ctx))
		case <-ctx.Done():
			return
		}
	}
}

// list reads everything into the view.
func (s *Store) list() error {
	resp, err := s.read(
		clientv3.OpGet(s.keys.mutexes(), clientv3.WithPrefix()),
		clientv3.OpGet(s.keys.declarations(), clientv3.WithPrefix()),
		clientv3.OpGet(s.keys.histories(), clientv3.WithPrefix()),
		clientv3.OpGet(s.keys.replicas(), clientv3.WithPrefix()),
	)
	if err != nil {
		return err
	}
	if !s.isSameEtcd(resp.Header) {
		select {
		case s.failed <- errReplaced:
		default: // told already
		}
		return errReplaced
	}
	groups := map[service.Name]*[3][]*mvccpb.KeyValue{}
	for i := range 3 {
		for _, kv := range resp.Responses[i].GetResponseRange().Kvs {
			_, name, _ := s.keys.parse(string(kv.Key))
			if groups[name] == nil {
				groups[name] = &[3][]*mvccpb.KeyValue{}
			}
			groups[name][i] = append(groups[name][i], kv)
		}
	}
	s.view.applyList(s.keys, groups, resp.Responses[3].GetResponseRange().Kvs, resp.Header.Revision)
	return nil
}

// isSameEtcd reports whether an answer is of the etcd that was listed first, and
// not older than what the watch has brought: reads are linearizable. It is for
// the goroutine of the watch alone.
func (s *Store) isSameEtcd(h *pb.ResponseHeader) bool {
	if s.cluster == 0 {
		s.cluster = h.ClusterId
	}
	s.view.mu.Lock()
	defer s.view.mu.Unlock()
	return h.ClusterId == s.cluster && h.Revision >= s.view.rev
}

// applyList takes in a list of everything as of rev.
func (v *view) applyList(k keys, groups map[service.Name]*[3][]*mvccpb.KeyValue, replicas []*mvccpb.KeyValue, rev int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.applyReplicas(k, replicas, rev)
	for name := range v.mutexes {
		if groups[name] == nil {
			groups[name] = &[3][]*mvccpb.KeyValue{}
		}
	}
	for name, g := range groups {
		if err := v.applyMutex(k, name, g[0], g[1], g[2], rev); err != nil {
			v.unreadable(err)
		}
		if m := v.mutexes[name]; m != nil {
			m.told = seenOf(m.owner) // what happened in between is lost to events
			v.lose(m)
		}
	}
	v.floor = max(v.floor, rev)
	v.advance(rev)
}

// takeIn takes in what the watch brought.
func (s *Store) takeIn(resp clientv3.WatchResponse) {
	v := s.view
	v.mu.Lock()
	defer v.mu.Unlock()
	if resp.IsProgressNotify() {
		v.advance(resp.Header.Revision)
		v.hearLocked()
		return
	}
	for from := 0; from < len(resp.Events); {
		rev := resp.Events[from].Kv.ModRevision
		to := from + 1
		for to < len(resp.Events) && resp.Events[to].Kv.ModRevision == rev {
			to++
		}
		v.takeRevision(s.keys, resp.Events[from:to], rev)
		from = to
	}
	v.hearLocked()
}

// takeRevision takes in all that one transaction wrote. A value that cannot be
// read harms its own mutex alone: there every decision is refused by a read.
// mu is held.
func (v *view) takeRevision(k keys, events []*clientv3.Event, rev int64) {
	v.watching = true
	defer func() { v.watching = false }()
	var touched []*mutex
	var heard map[*mutex]*happening // of those whose events are read
	for _, ev := range events {
		kind, name, tail := k.parse(string(ev.Kv.Key))
		pair := service.Pair(tail)
		switch kind {
		case keyOther:
			continue
		case keyReplica:
			v.applyReplica(tail, ev.Type == mvccpb.PUT, rev)
			continue
		case keySettled:
			v.takeSettled(&heard, name, pair, ev)
			continue
		}
		m := v.at(name)
		touched = append(touched, m)
		if h := m.listening(&heard); h != nil {
			if err := h.note(m.place(pair), kind, pair, ev); err != nil {
				v.unreadable(err)
			}
		}
		if ev.Type == mvccpb.DELETE {
			v.remove(m, kind, pair, rev)
		} else if err := v.apply(m, kind, pair, ev.Kv); err != nil {
			v.unreadable(err)
		}
		if kind == keyOwner && len(m.subs) == 0 {
			m.toldOwner(ev)
		}
	}
	v.advance(rev)
	for m, h := range heard {
		h.tell(m, rev)
	}
	for _, m := range touched {
		v.sweep(m)
	}
}

// takeSettled takes in what only readers of events want to know: how something
// ended, and not that two minutes have passed since. mu is held.
func (v *view) takeSettled(heard *map[*mutex]*happening, name service.Name, pair service.Pair, ev *clientv3.Event) {
	m := v.mutexes[name]
	if m == nil || ev.Type == mvccpb.DELETE {
		return
	}
	if h := m.listening(heard); h != nil {
		if err := h.note(nil, keySettled, pair, ev); err != nil {
			v.unreadable(err)
		}
	}
}

// hear says that the watch is live; what was put off meanwhile is tended to.
func (v *view) hear() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.hearLocked()
}

func (v *view) hearLocked() {
	wasBehind := !v.isCurrent()
	v.heard = time.Now()
	if !wasBehind {
		return
	}
	for _, m := range v.mutexes {
		v.tend(m)
		for pair := range m.polls {
			v.wake(m, pair)
		}
	}
}
