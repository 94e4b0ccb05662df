// Package etcdstore keeps mutexes in etcd. It is the only importer of etcd's
// client. A Store is one replica; however many may share an etcd.
//
// # Keys
//
// Everything is under one prefix. Values are JSON, versioned, and readable
// with etcdctl.
//
//	m/{mutex}/owner        the ownership; exists exactly while it is owned
//	m/{mutex}/line/{pair}  a place in line
//	settled/{mutex}/{pair} how a token's ownership or wait ended, for two minutes
//	declared/{mutex}       settings
//	history/{mutex}        the last ten ownerships of a declared mutex
//	replicas/{id}          a replica that is alive, put once a second while
//	                       anything is owned or waited for
//
// # Transactions
//
// Every change is one transaction, decided on the view and proved by its
// comparisons. When one fails, the mutex is read, and the decision is made again.
//
//	take      nobody owns; nothing in the line is newer than the view; the
//	          token is not spent → owner
//	join      somebody owns; the token is not spent → place
//	guard     the owner's revision → owner, with the same fencing token
//	end       the owner's revision; the head's; the head's replica is alive
//	          → owner names the head, the head's place is gone, what ended is
//	          settled. With no head: nothing in the line is newer than the
//	          view → no owner
//	promote   nobody owns; the head's revision, its replica is alive → owner
//	away      the place's revision → place, not present
//	leave     the place's revision → no place, settled
//
// Raft writes: take, guard, end, join, away and leave 1 each; handing over is
// part of end; guards in a batch 1 per 100. Transactions that come at once share
// one, each with its own comparisons (together).
//
// # Silence
//
// Members of etcd that do not answer are left out, and a transaction that is not
// answered is sent again, to another member (hedged). It happens once, for its
// own success makes its comparisons false; a copy that comes true later is
// undone by its poll.
//
// # Time
//
// Each replica counts the windows of every ownership on its own monotonic
// clock, which runs only while it can commit (windowClock). The home, the
// replica that answers the owner, ends it; another does so only when the home
// is dead. etcd's leases say who is alive, and clean up when no replica is
// left; they decide no window.
//
// # Ghosts
//
// Every acquire request has a random id, its poll, which stands in what it
// wrote and in what a hand-over wrote for it. A request that ended without
// telling its client leaves the poll behind as dead, and whatever carries a
// dead poll, now or when a delayed proposal is committed at last, is undone
// by tend.
package etcdstore
