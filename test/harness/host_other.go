//go:build !linux

package harness

// serverHost is where servers of a cluster listen.
const serverHost = "127.0.0.1"
