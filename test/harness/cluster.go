package harness

import (
	"fmt"
	"net"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Cluster is several replicas on several etcd members, with a link that can
// break between any two of them, and before each replica. Its methods are for
// one goroutine, but for Client, URL and the links.
type Cluster struct {
	Etcd     *Etcd
	Replicas []*Replica

	t          testing.TB
	host       string           // where its servers listen
	eye        *clientv3.Client // of the members themselves, not through links
	toReplicas []*Proxy
	toMembers  [][]*Proxy // by replica and member
	between    [][]*Proxy // by member and member; nil with itself
	cutOff     map[int]bool
}

// ClusterConfig says how large a cluster is, and of what.
type ClusterConfig struct {
	Replicas, Members int
	Flags             []string                        // of every replica
	Edits             []func(settings map[string]any) // of every member's settings
	Programs          []string                        // binaries of the replicas; Program where missing or ""
	Env               func(replica int) []string      // for a replica besides that of the tests; may be nil
}

// StartCluster starts a cluster, and returns when every replica serves. Nothing
// of it is left after the test.
func StartCluster(t testing.TB, cfg ClusterConfig) *Cluster {
	t.Helper()
	c := &Cluster{t: t, host: newHost(), cutOff: make(map[int]bool)}
	c.startMembers(cfg)
	c.eye = c.Etcd.Client()
	for i := range cfg.Replicas {
		c.launchReplica(i, cfg)
	}
	for _, r := range c.Replicas {
		r.serves()
		c.toReplicas = append(c.toReplicas, NewProxy(t, r.Addr()))
	}
	return c
}

// startMembers starts members that reach each other only through links: what
// they advertise is a name that leads nowhere but through a socks.
func (c *Cluster) startMembers(cfg ClusterConfig) {
	c.t.Helper()
	ports := freePorts(c.t, c.host, 2*cfg.Members)
	sites := make([]site, cfg.Members)
	for i := range sites {
		sites[i] = site{client: ports[2*i], peer: ports[2*i+1], advertised: memberName(i)}
	}
	for from := range sites {
		exits := make(map[string]*Proxy)
		row := make([]*Proxy, len(sites))
		for to := range sites {
			if to != from {
				row[to] = NewProxy(c.t, sites[to].peer)
				exits[memberName(to)] = row[to]
			}
		}
		c.between = append(c.between, row)
		sites[from].env = throughSocks(newSocks(c.t, exits))
	}
	c.Etcd = startEtcd(c.t, sites, cfg.Edits)
}

// memberName is what a member calls itself towards the others, and what their
// logs call it: 192.0.2.10 is member 0. No machine has such an address (RFC
// 5737).
func memberName(member int) string {
	return net.JoinHostPort(fmt.Sprintf("192.0.2.%d", 10+member), "2380")
}

func (c *Cluster) launchReplica(i int, cfg ClusterConfig) {
	c.t.Helper()
	links := make([]*Proxy, cfg.Members)
	addrs := make([]string, cfg.Members)
	for j, m := range c.Etcd.Members {
		links[j] = NewProxy(c.t, m.Addr)
		addrs[j] = links[j].Addr()
	}
	c.toMembers = append(c.toMembers, links)
	r := Replica{args: []string{"--listen=" + net.JoinHostPort(c.host, "0"), "--etcd=" + strings.Join(addrs, ",")}}
	r.args = append(r.args, cfg.Flags...)
	if i < len(cfg.Programs) {
		r.program = cfg.Programs[i]
	}
	if r.program == "" {
		r.program = Program(c.t)
	}
	if cfg.Env != nil {
		r.env = cfg.Env(i)
	}
	c.Replicas = append(c.Replicas, r.launched(c.t, fmt.Sprintf("replica %d", i)))
}

// Client returns a new client of a replica, through the link to it, with
// connections of its own.
func (c *Cluster) Client(replica int) *Client { return NewClient(c.URL(replica)) }

// URL returns the address of the link to a replica.
func (c *Cluster) URL(replica int) string { return "http://" + c.ToReplica(replica).Addr() }

// RestartReplica starts a replica that was killed or terminated again, at the
// same address behind the same links, and returns when it serves.
func (c *Cluster) RestartReplica(replica int) {
	c.t.Helper()
	c.StartReplica(replica)
	c.Replicas[replica].serves()
}

// StartReplica is RestartReplica, but does not wait until it serves.
func (c *Cluster) StartReplica(replica int) {
	c.t.Helper()
	c.Replicas[replica] = c.Replicas[replica].relaunched()
}

// RestartMember starts a member that was killed or terminated again, on its
// data. It does not wait: without a majority a member is not ready.
func (c *Cluster) RestartMember(member int) {
	c.t.Helper()
	c.Etcd.Members[member] = c.Etcd.Members[member].Again()
}
