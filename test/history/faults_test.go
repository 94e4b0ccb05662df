package history_test

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// fault is one that was drawn: the numbers choose whom and how.
type fault struct {
	kind  *faultKind
	a, b  int
	lasts time.Duration
}

// faultKind is what can go wrong.
type faultKind struct {
	name   string
	weight int
	alone  bool // not together with another
	deadly bool // to a replica
	// begin does it, and returns what it did and how to end it; nil where it
	// ends by itself, or could not be done.
	begin func(h *hand, a, b int) (did trouble, end func())
}

var faultKinds = []faultKind{
	{"kill a replica", 16, false, true, (*hand).killReplica},
	{"terminate a replica", 6, false, true, (*hand).terminateReplica},
	{"pause a replica", 8, false, false, (*hand).pauseReplica},
	{"kill a member", 10, false, false, (*hand).killMember},
	{"pause a member", 8, false, false, (*hand).pauseMember},
	{"pause all members", 4, true, false, (*hand).pauseAllMembers},
	{"part a member from the others", 8, false, false, (*hand).partMember},
	{"break clients' link", 14, false, false, (*hand).breakClients},
	{"break a link with a member", 8, false, false, (*hand).breakOne},
	{"break a replica's links with etcd", 12, false, false, (*hand).breakAll},
	{"compact", 3, false, false, (*hand).compact},
	{"move the leader", 3, false, false, (*hand).moveLeader},
}

// hand does the faults. It is for one goroutine.
type hand struct {
	c    *harness.Cluster
	etcd *clientv3.Client // of the members themselves
	busy map[string]bool  // what a fault is on already
}

func newHand(c *harness.Cluster) *hand {
	return &hand{c: c, etcd: c.Etcd.Client(), busy: map[string]bool{}}
}

// take returns n of those numbered below count, or the next that no fault is
// on; free lets go of it.
func (h *hand) take(what string, n, count int) (i int, free func()) {
	for range count {
		key := fmt.Sprint(what, n%count)
		if !h.busy[key] {
			h.busy[key] = true
			return n % count, func() { delete(h.busy, key) }
		}
		n++
	}
	panic("more faults at once than there are of " + what)
}

func (h *hand) replica(n int) (i int, free func()) { return h.take("replica ", n, len(h.c.Replicas)) }

// member takes the leader, or a follower.
func (h *hand) member(a, b int) (i int, free func(), role string) {
	leader := h.leader()
	if leader < 0 {
		i, free = h.take("member ", a, len(h.c.Etcd.Members))
		return i, free, "there is no leader"
	}
	n := leader
	if b%2 == 0 {
		n = leader + 1 + a%(len(h.c.Etcd.Members)-1)
	}
	i, free = h.take("member ", n, len(h.c.Etcd.Members))
	if i == leader {
		return i, free, "the leader"
	}
	return i, free, "a follower"
}

// leader returns the member that leads, -1 if none says so.
func (h *hand) leader() int {
	for i, m := range h.c.Etcd.Members {
		if m.Ended() || h.busy[fmt.Sprint("member ", i)] {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
		status, err := h.etcd.Status(ctx, m.Addr)
		cancel()
		if err == nil && status.Header.MemberId == status.Leader {
			return i
		}
	}
	return -1
}

func (h *hand) killReplica(a, _ int) (trouble, func()) {
	i, free := h.replica(a)
	h.c.Replicas[i].Kill()
	return trouble{of: replicas(i), what: fmt.Sprint("kill replica ", i), deadly: true}, func() { h.c.StartReplica(i); free() }
}

func (h *hand) terminateReplica(a, _ int) (trouble, func()) {
	i, free := h.replica(a)
	if r := h.c.Replicas[i]; !r.Ended() {
		r.Terminate()
	}
	return trouble{of: replicas(i), what: fmt.Sprint("terminate replica ", i), deadly: true}, func() { h.c.StartReplica(i); free() }
}

func (h *hand) pauseReplica(a, _ int) (trouble, func()) {
	i, free := h.replica(a)
	r := h.c.Replicas[i]
	did := trouble{of: everything, what: fmt.Sprint("pause replica ", i)}
	if r.Ended() {
		return did, free
	}
	r.Pause()
	return did, func() { r.Resume(); free() }
}

func (h *hand) killMember(a, b int) (trouble, func()) {
	i, free, role := h.member(a, b)
	h.c.Etcd.Members[i].Kill()
	return trouble{of: everything, what: fmt.Sprintf("kill member %d, %s", i, role)}, func() { h.c.RestartMember(i); free() }
}

func (h *hand) pauseMember(a, b int) (trouble, func()) {
	i, free, role := h.member(a, b)
	m := h.c.Etcd.Members[i]
	m.Pause()
	return trouble{of: everything, what: fmt.Sprintf("pause member %d, %s", i, role)}, func() { m.Resume(); free() }
}

func (h *hand) pauseAllMembers(_, _ int) (trouble, func()) {
	members := h.c.Etcd.Members
	for _, m := range members {
		m.Pause()
	}
	return trouble{of: everything, what: "pause all members"}, func() {
		for _, m := range members {
			m.Resume()
		}
	}
}

func (h *hand) partMember(a, b int) (trouble, func()) {
	i, free, role := h.member(a, b)
	var links []*harness.Proxy
	for other := range h.c.Etcd.Members {
		if other != i {
			links = append(links, h.c.Between(i, other), h.c.Between(other, i))
		}
	}
	how := linkFaults[[]int{0, 0, 1}[a/4%3]] // a black hole, mostly
	for _, link := range links {
		how.do(link)
	}
	what := fmt.Sprintf("part member %d, %s, from the others: %s", i, role, how.name)
	return trouble{of: everything, what: what}, func() { heal(links); free() }
}

func (h *hand) compact(_, _ int) (trouble, func()) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	what := "compact"
	now, err := h.etcd.Get(ctx, "any")
	if err == nil {
		_, err = h.etcd.Compact(ctx, now.Header.Revision)
	}
	if err != nil {
		what = fmt.Sprintf("compact: %v", err)
	}
	return trouble{of: everything, what: what}, nil
}

func (h *hand) moveLeader(a, _ int) (trouble, func()) {
	leader := h.leader()
	if leader < 0 {
		return trouble{of: everything, what: "move the leader: there is none"}, nil
	}
	to := (leader + 1 + a%(len(h.c.Etcd.Members)-1)) % len(h.c.Etcd.Members)
	what := fmt.Sprintf("move the leader from member %d to %d", leader, to)
	if err := h.moveTo(leader, to); err != nil {
		what += ": " + err.Error()
	}
	return trouble{of: everything, what: what}, nil
}

func (h *hand) moveTo(leader, to int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	status, err := h.etcd.Status(ctx, h.c.Etcd.Members[to].Addr)
	if err != nil {
		return err
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{h.c.Etcd.Members[leader].Addr}})
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.MoveLeader(ctx, status.Header.MemberId)
	return err
}
