//go:build !linux

package harness

// newHost returns an address for servers. Only one is there without being set
// up, so another may take the port of a server that is down for a while.
func newHost() string { return "127.0.0.1" }
