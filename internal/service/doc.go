// Package service is the domain of Holdfast: named mutexes with a ttl window,
// a transition window, a fair line and fencing tokens. It imports neither HTTP
// nor etcd.
//
// # Words
//
// A mutex is a named lock, declared (its settings are stored) or ad hoc (first
// use brings it into being). A contender wants it; a contender together with
// its secret token is a party. The owner is exclusive for the ttl window and
// must guard, that is renew, before it ends. In the transition window after it
// the owner alone may still guard, with the same fencing token. Parties that
// wait form a line, ordered by when they joined. W is ttl + transition.
//
// # Promises
//
// P1 exclusion; P2 fencing tokens of a mutex only grow; P3 an ownership never
// ends early; P4 it ends seldom late; P5 the line is fair; P6 a request whose
// client was not told that it owns leaves nothing owned; P7 a place in line
// survives a new poll; P8 every call may be repeated; P9 an outage of the
// service does not count against owners; P10 answers are honest, also about
// not knowing.
//
// # What is not promised
//
// A paused or partitioned owner can believe for a while that it still owns.
// Whatever must not be written twice has to check the fencing token.
package service
