package httpapi

import (
	"context"
	"net"
	"syscall"
)

// peer is the other end of a request's connection; the zero value is one that
// nothing can be seen of.
type peer struct {
	raw syscall.RawConn
}

type peerKey struct{}

// ConnContext is for http.Server. It lets the API look at the socket just
// before a grant is answered: a client whose FIN has arrived is gone, although
// the request's context may live for a moment, and a write would succeed.
func ConnContext(ctx context.Context, conn net.Conn) context.Context {
	if secure, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = secure.NetConn()
	}
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return ctx
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return ctx
	}
	return context.WithValue(ctx, peerKey{}, peer{raw: raw})
}

func peerOf(ctx context.Context) peer {
	p, _ := ctx.Value(peerKey{}).(peer)
	return p
}

// gone reports whether the peer can be seen to have closed the connection.
func (p peer) gone() bool {
	if p.raw == nil {
		return false
	}
	closed := false
	err := p.raw.Control(func(fd uintptr) { closed = closedByPeer(fd) })
	return closed || err != nil
}
