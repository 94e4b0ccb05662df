package httpapi

import (
	"golang.org/x/sys/unix"
)

// tcpEstablished is TCP_ESTABLISHED of the kernel's tcp_states.h.
const tcpEstablished = 1

// closedByPeer asks the kernel for the state of the connection. A look at what
// was received would not do: the end comes after whatever else the peer sent,
// and a byte after the request also ends net/http's own look-out for it.
func closedByPeer(fd uintptr) bool {
	info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	return err == nil && info.State != tcpEstablished
}
