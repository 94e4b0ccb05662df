package etcdstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-lock/holdfast/internal/etcdstore"
	"github.com/holdfast-lock/holdfast/internal/service"
)

// turnstile lets transactions through when it is open, and counts them.
type turnstile struct {
	clientv3.KV
	open chan struct{}
	sent atomic.Int64
	puts sync.Map // keys
	// owners is how many of those are of an owner.
	owners atomic.Int64
	fail   atomic.Pointer[func(puts int) error] // of what several write
}

func behindTurnstile(t *testing.T, h *house) (*etcdstore.Store, *turnstile) {
	t.Helper()
	w := &turnstile{KV: h.client.KV, open: make(chan struct{})}
	close(w.open)
	client := clientv3.NewCtxClient(context.Background())
	client.KV, client.Lease, client.Watcher = w, h.client.Lease, h.client.Watcher
	return replica(t, client, h.prefix, policy), w
}

func (w *turnstile) Txn(ctx context.Context) clientv3.Txn { return &passing{Txn: w.KV.Txn(ctx), w: w} }

type passing struct {
	clientv3.Txn
	w      *turnstile
	nested int
	beat   bool
}

func (p *passing) If(cs ...clientv3.Cmp) clientv3.Txn   { p.Txn = p.Txn.If(cs...); return p }
func (p *passing) Else(ops ...clientv3.Op) clientv3.Txn { p.Txn = p.Txn.Else(ops...); return p }

func (p *passing) Then(ops ...clientv3.Op) clientv3.Txn {
	for _, op := range ops {
		if op.IsTxn() {
			p.nested++
			_, nested, _ := op.Txn()
			p.note(nested)
		}
		p.beat = p.beat || strings.Contains(string(op.KeyBytes()), "/replicas/")
	}
	p.note(ops)
	p.Txn = p.Txn.Then(ops...)
	return p
}

func (p *passing) note(ops []clientv3.Op) {
	for _, op := range ops {
		if op.IsPut() {
			if _, again := p.w.puts.LoadOrStore(string(op.KeyBytes()), true); !again && strings.HasSuffix(string(op.KeyBytes()), "/owner") {
				p.w.owners.Add(1)
			}
		}
	}
}

func (p *passing) Commit() (*clientv3.TxnResponse, error) {
	if p.beat {
		return p.Txn.Commit()
	}
	p.w.sent.Add(1)
	<-p.w.open
	if fail := p.w.fail.Load(); fail != nil {
		if err := (*fail)(p.nested); err != nil {
			return nil, err
		}
	}
	return p.Txn.Commit()
}

// shut holds back whatever comes from now on. What a first acquire reserves is
// there already.
func (w *turnstile) shut(t *testing.T, s *etcdstore.Store) {
	t.Helper()
	g, err := s.Acquire(t.Context(), service.AcquireRequest{Mutex: "first", Party: party("first")})
	if err != nil {
		t.Fatal(err)
	}
	g.Told()
	w.sent.Store(0)
	w.owners.Store(0)
	w.open = make(chan struct{})
}

// crowd has n parties acquire a mutex each, all at once, and returns what they
// got.
func crowd(t *testing.T, s *etcdstore.Store, w *turnstile, n int) (owned int, errs []error) {
	t.Helper()
	w.shut(t, s)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			g, err := s.Acquire(t.Context(), service.AcquireRequest{Mutex: service.Name(fmt.Sprint("m", i)), Party: party("alice")})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, err)
				return
			}
			owned++
			g.Told()
		})
	}
	for w.owners.Load() < int64(n) { // not all are on their way
		time.Sleep(time.Millisecond)
	}
	close(w.open)
	wg.Wait()
	return owned, errs
}

// Sixty come at once: they share a few proposals, and each gets its mutex.
func TestThoseWhoComeTogetherShareAProposal(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	s, w := behindTurnstile(t, h)
	owned, errs := crowd(t, s, w, 60)
	if owned != 60 || len(errs) > 0 {
		t.Errorf("got %d owned, %v", owned, errs)
	}
	if got := w.sent.Load(); got > 45 { // few, where all arrive within 100 ms
		t.Errorf("got %d proposals for 60, want fewer", got)
	}
}

// Nothing is answered for a while: what comes later is sent all the same, and
// not held up by that.
func TestWhatComesLaterIsSentWhileOthersHang(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	s, w := behindTurnstile(t, h)
	w.shut(t, s)
	defer close(w.open)
	for i := range 12 {
		go func() {
			g, err := s.Acquire(t.Context(), service.AcquireRequest{Mutex: service.Name(fmt.Sprint("m", i)), Party: party("alice")})
			if err == nil {
				g.Told()
			}
		}()
		time.Sleep(30 * time.Millisecond)
	}
	h.eventually("all are sent", func() bool {
		for i := range 12 {
			if _, ok := w.puts.Load(fmt.Sprintf("%sm/m%d/owner", h.prefix, i)); !ok {
				return false
			}
		}
		return true
	})
}

// Of a batch etcd refuses all for the sake of one: the others do not suffer.
func TestABatchIsRefusedForOne(t *testing.T) {
	t.Parallel()
	for _, refusal := range []error{rpctypes.ErrLeaseNotFound, rpctypes.ErrRequestTooLarge, rpctypes.ErrTooManyOps} {
		h := newHouse(t)
		s, w := behindTurnstile(t, h)
		fail := func(nested int) error {
			if nested > 0 {
				return refusal
			}
			return nil
		}
		w.fail.Store(&fail)
		if owned, errs := crowd(t, s, w, 60); owned != 60 {
			t.Errorf("%v: got %d owned, %v", refusal, owned, errs)
		}
	}
}

// Nobody knows what became of a batch: so it is for each of those in it.
func TestNobodyKnowsWhatBecameOfABatch(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	s, w := behindTurnstile(t, h)
	fail := func(nested int) error {
		if nested > 0 {
			return rpctypes.ErrTimeout
		}
		return nil
	}
	w.fail.Store(&fail)
	owned, errs := crowd(t, s, w, 60)
	if owned == 0 || len(errs) == 0 || owned+len(errs) != 60 {
		t.Errorf("got %d owned, and %d errors, want some of both", owned, len(errs))
	}
	for _, err := range errs {
		if !errors.Is(err, service.Of(service.KindOutcomeUnknown)) {
			t.Errorf("got %v, want that the outcome is unknown", err)
		}
	}
}

// Many want the same mutex at once, and others others: one of each kind is in
// a proposal, and each mutex has one owner.
func TestOneOfAMutexInAProposal(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	s, w := behindTurnstile(t, h)
	w.open = make(chan struct{})
	var owned [4]atomic.Int64
	var wg sync.WaitGroup
	for i := range 48 {
		wg.Go(func() {
			name := service.Name(fmt.Sprint("m", i%4))
			g, err := s.Acquire(t.Context(), service.AcquireRequest{Mutex: name, Party: party(fmt.Sprint("alice-", i))})
			switch {
			case err == nil:
				owned[i%4].Add(1)
				g.Told()
			case !errors.Is(err, service.Of(service.KindLocked)):
				t.Error(err)
			}
		})
	}
	h.eventually("some are on their way", func() bool { return w.sent.Load() >= 4 })
	close(w.open)
	wg.Wait()
	for i := range owned {
		if got := owned[i].Load(); got != 1 {
			t.Errorf("m%d: got %d owners, want 1", i, got)
		}
	}
}
