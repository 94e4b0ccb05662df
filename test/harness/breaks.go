package harness

// ToReplica returns the link from the clients to a replica.
func (c *Cluster) ToReplica(replica int) *Proxy { return c.toReplicas[replica] }

// ToMember returns the link from a replica to a member. A replica has links of
// its own to every member.
func (c *Cluster) ToMember(replica, member int) *Proxy { return c.toMembers[replica][member] }

// Between returns the link that carries the connections that one member opens
// to another. Members talk over connections of both: etcd mostly reads what the
// other one sends over those that it opened itself. To part two members, hold
// both.
func (c *Cluster) Between(from, to int) *Proxy { return c.between[from][to] }

// CutOffReplica holds all links of a replica with etcd.
func (c *Cluster) CutOffReplica(replica int) {
	for _, link := range c.toMembers[replica] {
		link.Hold()
	}
}

// CutOffMember holds all links of a member, with the other members and with
// the replicas.
func (c *Cluster) CutOffMember(member int) {
	c.cutOff[member] = true
	for i := range c.toMembers {
		c.ToMember(i, member).Hold()
	}
	for other := range c.between {
		if other != member {
			c.Between(member, other).Hold()
			c.Between(other, member).Hold()
		}
	}
}

// Heal ends every fault of every link.
func (c *Cluster) Heal() {
	clear(c.cutOff)
	for _, link := range c.links() {
		link.Heal()
	}
}

func (c *Cluster) links() []*Proxy {
	all := append([]*Proxy{}, c.toReplicas...)
	for _, row := range c.toMembers {
		all = append(all, row...)
	}
	for from, row := range c.between {
		all = append(all, row[:from]...)
		all = append(all, row[from+1:]...)
	}
	return all
}
