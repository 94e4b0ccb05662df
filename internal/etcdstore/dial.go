package etcdstore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

const (
	// gRPC allows no more frequent pings than every 10 s.
	pingEvery   = 10 * time.Second
	pingTimeout = 5 * time.Second

	// A connection that could not be made is tried again within a second:
	// gRPC's own back-off grows to two minutes, in which a cluster that is back
	// would not be noticed. Each try has as long as a slow link needs.
	redialFirst   = 100 * time.Millisecond
	redialAtMost  = time.Second
	redialTimeout = 5 * time.Second

	// diagnose bounds the look at why nobody answered.
	diagnose = time.Second
)

var redial = grpc.WithConnectParams(grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: redialFirst, Multiplier: backoff.DefaultConfig.Multiplier, Jitter: backoff.DefaultConfig.Jitter, MaxDelay: redialAtMost},
	MinConnectTimeout: redialTimeout,
})

// Client is etcd's client, by a name for those who only hand it on.
type Client = clientv3.Client

// DialConfig says how to reach an etcd cluster.
type DialConfig struct {
	Endpoints      []string // host:port, or URLs with http, https, unix or unixs
	CA, Cert, Key  string   // files in PEM; "" = the system's roots, no certificate
	User, Password string   // "" = no login
	Prefix         string   // that can be read then
	Timeout        time.Duration
	Log            *slog.Logger
}

// Dial returns a client when one of the endpoints answers, and a majority of
// the members behind them does. Its error is one line: a file that cannot be
// used, a login or a prefix that was refused, or, after Timeout, why each
// endpoint did not answer. The client reads the certificate again for every
// connection.
func Dial(ctx context.Context, cfg DialConfig) (*Client, error) {
	tlsCfg, err := cfg.tls()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	client, err := clientv3.New(clientv3.Config{
		Endpoints:            cfg.Endpoints,
		TLS:                  tlsCfg,
		Username:             cfg.User,
		Password:             cfg.Password,
		DialTimeout:          cfg.Timeout,
		DialKeepAliveTime:    pingEvery,
		DialKeepAliveTimeout: pingTimeout,
		Logger:               zap.NewNop(), // every failure reaches a caller
		DialOptions:          []grpc.DialOption{redial},
	})
	if err != nil { // the login
		return nil, cfg.explain(ctx, err, tlsCfg)
	}
	if err := anyAnswers(ctx, client, cfg.Log); err != nil {
		_ = client.Close()
		return nil, cfg.explain(ctx, err, tlsCfg)
	}
	if err := cfg.read(ctx, client); err != nil {
		_ = client.Close()
		return nil, err
	}
	return client, nil
}

// explain makes one line of the error with which nobody answered.
func (cfg DialConfig) explain(ctx context.Context, err error, tlsCfg *tls.Config) error {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no etcd answered within %v: %s", cfg.Timeout, reasons(cfg.Endpoints, tlsCfg))
	case ctx.Err() != nil:
		return context.Cause(ctx)
	default:
		return err
	}
}

// read reads under the prefix, as only a majority can.
func (cfg DialConfig) read(ctx context.Context, client *Client) error {
	_, err := client.Get(ctx, cfg.Prefix, clientv3.WithPrefix(), clientv3.WithLimit(1), clientv3.WithKeysOnly())
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("etcd answers, but no majority of its members within %v", cfg.Timeout)
	case err != nil:
		return fmt.Errorf("read %s: %w", cfg.Prefix, err)
	}
	return nil
}

// anyAnswers returns nil with the first answer of an endpoint, else the first
// error.
func anyAnswers(ctx context.Context, client *Client, log *slog.Logger) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	endpoints := client.Endpoints()
	errs := make(chan error, len(endpoints))
	for _, ep := range endpoints {
		wg.Go(func() {
			status, err := client.Status(ctx, ep)
			if err == nil {
				log.DebugContext(ctx, "etcd answers", "endpoint", ep, "version", status.Version)
			}
			errs <- err
		})
	}
	var first error
	for range endpoints {
		err := <-errs
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// reasons looks at each endpoint once more: the client itself reports nothing
// but its deadline.
func reasons(endpoints []string, cfg *tls.Config) string {
	ctx, cancel := context.WithTimeout(context.Background(), diagnose)
	defer cancel()
	texts := make([]string, len(endpoints))
	var wg sync.WaitGroup
	for i, ep := range endpoints {
		wg.Go(func() { texts[i] = ep + ": " + reason(ctx, ep, cfg) })
	}
	wg.Wait()
	return strings.Join(texts, "; ")
}

func reason(ctx context.Context, endpoint string, cfg *tls.Config) string {
	network, address, secure := split(endpoint)
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) {
			err = op.Err // the address is in the line already
		}
		return err.Error()
	}
	defer conn.Close()
	if secure || cfg != nil {
		c := cfg.Clone()
		if c.ServerName == "" {
			c.ServerName, _, _ = net.SplitHostPort(address)
		}
		conn = tls.Client(conn, c)
		// A server that wants a certificate says so after the handshake.
		_ = conn.SetDeadline(time.Now().Add(diagnose / 2))
		if _, err := conn.Read(make([]byte, 1)); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return err.Error()
		}
	}
	return "something listens there, but it did not answer as etcd does"
}

// split returns what to dial for an endpoint, and whether it speaks TLS.
func split(endpoint string) (network, address string, secure bool) {
	u, err := url.Parse(endpoint)
	if err != nil || !strings.Contains(endpoint, "://") {
		return "tcp", endpoint, false
	}
	switch u.Scheme {
	case "unix", "unixs":
		return "unix", u.Host + u.Path, u.Scheme == "unixs"
	default:
		return "tcp", u.Host, u.Scheme == "https"
	}
}

// tls returns the settings for TLS, nil where nothing asks for it.
func (cfg DialConfig) tls() (*tls.Config, error) {
	secure := cfg.CA != "" || cfg.Cert != ""
	for _, ep := range cfg.Endpoints {
		_, _, s := split(ep)
		secure = secure || s
	}
	if !secure {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if cfg.CA != "" {
		pem, err := os.ReadFile(cfg.CA)
		if err != nil {
			return nil, fmt.Errorf("certificate authority: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("certificate authority: no certificate in %s", cfg.CA)
		}
	}
	if cfg.Cert != "" {
		load := func() (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(cfg.Cert, cfg.Key)
			return &pair, err
		}
		if _, err := load(); err != nil {
			return nil, fmt.Errorf("client certificate: %w", err)
		}
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	}
	return c, nil
}
