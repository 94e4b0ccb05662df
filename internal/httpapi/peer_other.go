//go:build !(linux || darwin || freebsd || netbsd || openbsd)

package httpapi

// closedByPeer cannot tell here; the request's context has to do.
func closedByPeer(uintptr) bool { return false }
