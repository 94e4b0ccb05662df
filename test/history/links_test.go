package history_test

import (
	"fmt"
	"time"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// linkFaults are what can happen to a link.
var linkFaults = []struct {
	name string
	do   func(*harness.Proxy)
}{
	{"held", func(p *harness.Proxy) { p.Hold() }},
	{"cut", (*harness.Proxy).Cut},
	{"50 ms late", late(50)},
	{"200 ms late", late(200)},
	{"500 ms late", late(500)},
	{"answers 500 ms late", late(500, harness.ToClient)},
	{"reset", (*harness.Proxy).Reset},
	{"requests held", func(p *harness.Proxy) { p.Hold(harness.ToServer) }},
	{"answers held", func(p *harness.Proxy) { p.Hold(harness.ToClient) }},
}

func late(ms int, ds ...harness.Direction) func(*harness.Proxy) {
	return func(p *harness.Proxy) { p.Delay(time.Duration(ms)*time.Millisecond, ds...) }
}

func heal(links []*harness.Proxy) {
	for _, link := range links {
		link.Heal()
	}
}

func (h *hand) breakClients(a, b int) (trouble, func()) {
	i, free := h.take("clients of replica ", a, len(h.c.Replicas))
	how := linkFaults[b%len(linkFaults)]
	how.do(h.c.ToReplica(i))
	what := fmt.Sprintf("clients' link to replica %d: %s", i, how.name)
	return trouble{of: replicas(i), what: what}, func() { h.c.ToReplica(i).Heal(); free() }
}

func (h *hand) breakOne(a, b int) (trouble, func()) {
	i, free := h.take("etcd of replica ", a, len(h.c.Replicas))
	j := a / len(h.c.Replicas) % len(h.c.Etcd.Members)
	how := linkFaults[b%len(linkFaults)]
	how.do(h.c.ToMember(i, j))
	what := fmt.Sprintf("link of replica %d to member %d: %s", i, j, how.name)
	return trouble{of: everything, what: what}, func() { h.c.ToMember(i, j).Heal(); free() }
}

func (h *hand) breakAll(a, b int) (trouble, func()) {
	i, free := h.take("etcd of replica ", a, len(h.c.Replicas))
	how := linkFaults[b%len(linkFaults)]
	var links []*harness.Proxy
	for j := range h.c.Etcd.Members {
		links = append(links, h.c.ToMember(i, j))
		how.do(h.c.ToMember(i, j))
	}
	what := fmt.Sprintf("links of replica %d to all members: %s", i, how.name)
	return trouble{of: everything, what: what}, func() { heal(links); free() }
}
