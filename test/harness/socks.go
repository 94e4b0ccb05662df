package harness

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// socks leads one member's connections to the others into links: a SOCKS5
// server, the least that net/http asks for. So links are told apart by who
// opened a connection, which a listener cannot know.
type socks struct {
	listener net.Listener
	exits    map[string]*Proxy // by the host:port that is asked for
}

// newSocks returns the server's address, host:port. It ends with the test.
func newSocks(t testing.TB, exits map[string]*Proxy) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	s := &socks{listener: l, exits: exits}
	go s.accept()
	return l.Addr().String()
}

// throughSocks is the environment that makes etcd use it between members.
// Connections to loopback, such as those to itself, do without.
func throughSocks(addr string) []string {
	return []string{"HTTP_PROXY=socks5://" + addr, "NO_PROXY=", "no_proxy="}
}

func (s *socks) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		go s.guide(c.(*net.TCPConn))
	}
}

func (s *socks) guide(c *net.TCPConn) {
	_ = c.SetDeadline(time.Now().Add(startTimeout))
	target, err := greet(c)
	exit := s.exits[target]
	if err != nil || exit == nil || c.SetDeadline(time.Time{}) != nil {
		_ = c.Close()
		return
	}
	exit.adopt(c)
}

// greet lets a client in, and returns where it wants to (RFC 1928).
func greet(c io.ReadWriter) (target string, err error) {
	const version, connect, ipv4, noLogin, granted = 5, 1, 1, 0, 0
	hello := make([]byte, 2) // version, number of ways to log in
	if _, err := io.ReadFull(c, hello); err != nil {
		return "", err
	}
	if _, err := io.ReadFull(c, make([]byte, hello[1])); err != nil {
		return "", err
	}
	if _, err := c.Write([]byte{version, noLogin}); err != nil {
		return "", err
	}
	ask := make([]byte, 10) // version, command, 0, kind of address, address, port
	if _, err := io.ReadFull(c, ask); err != nil {
		return "", err
	}
	if ask[1] != connect || ask[3] != ipv4 {
		return "", errors.New("not a connection to an IPv4 address")
	}
	_, err = c.Write([]byte{version, granted, 0, ipv4, 0, 0, 0, 0, 0, 0})
	port := binary.BigEndian.Uint16(ask[8:])
	return (&net.TCPAddr{IP: ask[4:8], Port: int(port)}).String(), err
}
