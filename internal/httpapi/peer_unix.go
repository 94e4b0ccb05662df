//go:build darwin || freebsd || netbsd || openbsd

package httpapi

import (
	"errors"
	"syscall"
)

// closedByPeer looks at what was received without taking it. Nothing to read
// is nothing wrong; the end of the stream, or an error, is.
func closedByPeer(fd uintptr) bool {
	var b [1]byte
	n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	if err != nil {
		return !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EINTR)
	}
	return n == 0
}
