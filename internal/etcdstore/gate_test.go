package etcdstore_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-lock/holdfast/internal/etcdstore"
	"github.com/holdfast-lock/holdfast/internal/service"
)

// gate lets a test act between a decision of a replica and its transaction,
// and lose what etcd answers.
type gate struct {
	clientv3.KV
	mu     sync.Mutex
	before func(puts string)                                           // guarded by mu
	commit func(puts string, commit commitFunc) (lost bool, err error) // guarded by mu
	after  func(keys string)                                           // guarded by mu
	shut   bool                                                        // nothing is committed; guarded by mu
}

type commitFunc = func() (*clientv3.TxnResponse, error)

// gated returns a client whose transactions go through a gate.
func gated(client *clientv3.Client) (*clientv3.Client, *gate) {
	g := &gate{KV: client.KV}
	c := clientv3.NewCtxClient(context.Background())
	c.KV, c.Lease, c.Watcher = g, client.Lease, client.Watcher
	return c, g
}

// once has act called before the next transaction that would write a key which
// contains part.
func (g *gate) once(part string, act func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.before = func(keys string) {
		if strings.Contains(keys, part) {
			g.before = nil
			g.mu.Unlock()
			act()
			g.mu.Lock()
		}
	}
}

// afterwards has act called when the next transaction that would write a key
// which contains part has been decided by etcd, before the replica hears of it.
func (g *gate) afterwards(part string, act func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var once sync.Once
	g.after = func(keys string) {
		if strings.Contains(keys, part) {
			once.Do(act)
		}
	}
}

// loses has the next transaction that would write a key which contains part
// answered by how, which gets the real commit.
func (g *gate) loses(part string, how func(commit commitFunc) error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.commit = func(keys string, commit commitFunc) (bool, error) {
		if !strings.Contains(keys, part) {
			return false, nil
		}
		g.commit = nil
		g.mu.Unlock()
		defer g.mu.Lock()
		return true, how(commit)
	}
}

func (g *gate) Txn(ctx context.Context) clientv3.Txn {
	return &gatedTxn{Txn: g.KV.Txn(context.WithoutCancel(ctx)), gate: g}
}

type gatedTxn struct {
	clientv3.Txn
	gate *gate
	keys string
}

func (t *gatedTxn) If(cs ...clientv3.Cmp) clientv3.Txn   { t.Txn = t.Txn.If(cs...); return t }
func (t *gatedTxn) Else(ops ...clientv3.Op) clientv3.Txn { t.Txn = t.Txn.Else(ops...); return t }

func (t *gatedTxn) Then(ops ...clientv3.Op) clientv3.Txn {
	for _, op := range ops {
		if op.IsPut() || op.IsDelete() {
			t.keys += string(op.KeyBytes()) + "\n"
		}
	}
	t.Txn = t.Txn.Then(ops...)
	return t
}

func (t *gatedTxn) Commit() (*clientv3.TxnResponse, error) {
	g := t.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return nil, context.DeadlineExceeded
	}
	if g.before != nil {
		g.before(t.keys)
	}
	if g.commit != nil {
		if lost, err := g.commit(t.keys, t.Txn.Commit); lost {
			return nil, err
		}
	}
	after := g.after
	g.mu.Unlock()
	defer g.mu.Lock()
	resp, err := t.Txn.Commit()
	if after != nil {
		after(t.keys)
	}
	return resp, err
}

// close lets no transaction through any more.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = true
}

// house is two replicas on one etcd; transactions of the first can be held up.
type house struct {
	t       *testing.T
	client  *clientv3.Client
	prefix  string
	gate    *gate // of a
	gateOfB *gate
	a, b    *etcdstore.Store
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{t: t, client: etcd(t), prefix: "/t/"}
	var ofA, ofB *clientv3.Client
	ofA, h.gate = gated(h.client)
	ofB, h.gateOfB = gated(h.client)
	h.a = replica(t, ofA, h.prefix, policy)
	h.b = replica(t, ofB, h.prefix, policy)
	return h
}

var policy = service.Policy{DefaultTTL: 10 * time.Second, DefaultTransition: 6 * time.Second}

// patience is less than the default W, lest an ownership that went to the wrong
// party ends by itself and hides it.
const patience = 10 * time.Second

const deploy = service.Name("deploy")

func party(name string) service.Party {
	return service.NewParty(service.ContenderID(name), service.Token(name+"-0123456789abcdef"))
}

// owns acquires without a wait, and tells.
func (h *house) owns(s *etcdstore.Store, who string, asked ...time.Duration) service.Ownership {
	h.t.Helper()
	g, err := s.Acquire(h.t.Context(), request(who, 0, asked...))
	if err != nil {
		h.t.Fatalf("%s acquires: %v", who, err)
	}
	g.Told()
	return g.Ownership()
}

// request asks for deploy; asked is the ttl, then the transition.
func request(who string, wait time.Duration, asked ...time.Duration) service.AcquireRequest {
	req := service.AcquireRequest{Mutex: deploy, Party: party(who), Wait: wait}
	if len(asked) == 2 {
		req.Asked = service.Asked{TTL: &asked[0], Transition: &asked[1]}
	}
	return req
}

// waiter is an acquire that waits.
type waiter struct {
	h      *house
	who    string
	cancel context.CancelFunc
	done   chan struct{}
	grant  service.Grant
	err    error
}

// waits joins the line, and returns when the place is there.
func (h *house) waits(s *etcdstore.Store, who string, asked ...time.Duration) *waiter {
	h.t.Helper()
	w := h.polls(s, who, asked...)
	h.eventually(who+" is present", func() bool { return h.present(who) })
	return w
}

func (h *house) polls(s *etcdstore.Store, who string, asked ...time.Duration) *waiter {
	ctx, cancel := context.WithCancel(h.t.Context())
	w := &waiter{h: h, who: who, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		w.grant, w.err = s.Acquire(ctx, request(who, time.Minute, asked...))
	}()
	return w
}

func (w *waiter) ends() {
	w.h.t.Helper()
	select {
	case <-w.done:
	case <-time.After(patience):
		w.h.t.Fatalf("%s still waits", w.who)
	}
}

// own returns what the wait brought.
func (w *waiter) own() service.Ownership {
	w.h.t.Helper()
	w.ends()
	if w.err != nil {
		w.h.t.Fatalf("%s waits: %v", w.who, w.err)
	}
	w.grant.Told()
	return w.grant.Ownership()
}

func (h *house) present(who string) bool {
	line, err := h.b.Waiters(h.t.Context(), deploy)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, w := range line {
		if w.Present && string(w.Contender) == who {
			return true
		}
	}
	return false
}

// owner returns who owns deploy, "" for nobody.
func (h *house) owner() string {
	m, err := h.b.Mutex(h.t.Context(), service.ReadRequest{Mutex: deploy})
	if err != nil {
		h.t.Fatal(err)
	}
	if m.Owner == nil {
		return ""
	}
	return string(m.Owner.Contender)
}

func (h *house) releases(s *etcdstore.Store, who string) {
	h.t.Helper()
	if out, err := s.Release(h.t.Context(), service.ReleaseRequest{Mutex: deploy, Party: party(who)}); err != nil || out != service.ReleasedNow {
		h.t.Fatalf("%s releases: got %v, %v", who, out, err)
	}
}

func (h *house) eventually(what string, is func() bool) {
	h.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if is() {
			return
		}
	}
	h.t.Fatalf("still not so: %s", what)
}
