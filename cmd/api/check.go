package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// check holds values against their limits, and against each other. Its error
// names a flag.
func (c *Config) check() error {
	return cmp.Or(
		c.checkListen(),
		c.checkEtcd(),
		c.checkKeeping(),
		between("--default-ttl", c.DefaultTTL, service.MinTTL, service.MaxTTL),
		between("--default-transition", c.DefaultTransition, 0, service.MaxTransition),
		between("--max-wait", c.MaxWait, time.Millisecond, time.Hour),
		between("--drain", c.Drain, 0, time.Hour),
	)
}

// between also refuses parts of milliseconds, which the API could not show.
func between(flag string, d, least, most time.Duration) error {
	if d < least || d > most {
		return fmt.Errorf("%s: %v is not from %v to %v", flag, d, least, most)
	}
	if d%time.Millisecond != 0 {
		return fmt.Errorf("%s: %v is not a whole number of milliseconds", flag, d)
	}
	return nil
}

func (c *Config) checkListen() error {
	addr, err := c.address()
	if err != nil {
		return err
	}
	if !addr.IP.IsLoopback() && !c.Insecure {
		return fmt.Errorf("--listen: %s is not a loopback address, and nobody has to say who they are: that needs --insecure", c.Listen)
	}
	return c.checkPprof()
}

func (c *Config) checkPprof() error {
	if c.Pprof == "" {
		return nil
	}
	addr, err := net.ResolveTCPAddr("tcp", c.Pprof)
	if err != nil {
		return fmt.Errorf("--pprof: %w", err)
	}
	if !addr.IP.IsLoopback() {
		return fmt.Errorf("--pprof: %s is not a loopback address", c.Pprof)
	}
	return nil
}

// address returns what --listen stands for.
func (c *Config) address() (*net.TCPAddr, error) {
	addr, err := net.ResolveTCPAddr("tcp", c.Listen)
	if err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	return addr, nil
}

func (c *Config) checkEtcd() error {
	for _, o := range []struct{ flag, value string }{
		{"--etcd-ca", c.EtcdCA},
		{"--etcd-cert", c.EtcdCert},
		{"--etcd-key", c.EtcdKey},
		{"--etcd-user", c.EtcdUser},
		{"--etcd-password-file", c.EtcdPasswordFile},
	} {
		if o.value != "" && len(c.Etcd) == 0 {
			return fmt.Errorf("%s: is for the endpoints of --etcd, and there are none", o.flag)
		}
	}
	for _, ep := range c.Etcd {
		if err := c.checkEndpoint(ep); err != nil {
			return fmt.Errorf("--etcd: %q: %w", ep, err)
		}
	}
	return cmp.Or(
		together("--etcd-cert", c.EtcdCert, "--etcd-key", c.EtcdKey),
		together("--etcd-user", c.EtcdUser, "--etcd-password-file", c.EtcdPasswordFile),
		between("--etcd-timeout", c.EtcdTimeout, 100*time.Millisecond, time.Minute),
	)
}

func (c *Config) checkEndpoint(ep string) error {
	scheme, rest, hasScheme := strings.Cut(ep, "://")
	if !hasScheme {
		scheme, rest = "", ep
	}
	switch scheme {
	case "unix", "unixs":
		if !strings.HasPrefix(rest, "/") {
			return errors.New("needs the absolute path of a socket")
		}
		return nil
	case "http":
		if c.EtcdCA != "" || c.EtcdCert != "" {
			return errors.New("would not use --etcd-ca and --etcd-cert: they are for https")
		}
	case "", "https":
	default:
		return errors.New("is neither host:port nor a URL with http, https or unix")
	}
	u, err := url.Parse("tcp://" + rest)
	if err != nil || u.Hostname() == "" || u.Port() == "" || u.Host != rest {
		return errors.New("needs a host and a port, and nothing more")
	}
	return nil
}

func together(a, valueA, b, valueB string) error {
	switch {
	case valueA != "" && valueB == "":
		return fmt.Errorf("%s: needs %s", a, b)
	case valueB != "" && valueA == "":
		return fmt.Errorf("%s: needs %s", b, a)
	}
	return nil
}

// checkKeeping looks at where things are kept.
func (c *Config) checkKeeping() error {
	if len(c.Etcd) == 0 && c.DataDir == "" {
		return errors.New("--data-dir: is empty, and so is --etcd")
	}
	p := c.Prefix
	if len(p) < 2 || p[0] != '/' || p[len(p)-1] != '/' || strings.Contains(p, "//") || strings.ContainsFunc(p, unprintable) {
		return fmt.Errorf("--prefix: %q is not like /holdfast/v1/", p)
	}
	return nil
}

func unprintable(r rune) bool { return r <= ' ' || r > '~' }

// password reads --etcd-password-file.
func (c *Config) password() (string, error) {
	if c.EtcdPasswordFile == "" {
		return "", nil
	}
	text, err := os.ReadFile(c.EtcdPasswordFile)
	if err != nil {
		return "", fmt.Errorf("--etcd-password-file: %w", err)
	}
	password := strings.TrimRight(string(text), "\r\n")
	if password == "" {
		return "", fmt.Errorf("--etcd-password-file: %s is empty", c.EtcdPasswordFile)
	}
	return password, nil
}
