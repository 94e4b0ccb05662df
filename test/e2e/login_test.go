package e2e_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// authority signs certificates for one test.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	a.cert, a.key = a.sign(t, "ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// issue writes NAME.pem and NAME-key.pem for both ends of connections to hosts,
// which are addresses.
func (a *authority) issue(t *testing.T, name string, hosts ...string) (cert, key string) {
	t.Helper()
	addrs := make([]net.IP, len(hosts))
	for i, host := range hosts {
		addrs[i] = net.ParseIP(host)
	}
	a.sign(t, name, &x509.Certificate{
		IPAddresses: addrs,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	return a.path(name + ".pem"), a.path(name + "-key.pem")
}

func (a *authority) path(file string) string { return filepath.Join(a.dir, file) }

func (a *authority) sign(t *testing.T, name string, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.Subject = pkix.Name{CommonName: name}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := template, key // of itself, unless there is an authority
	if a.cert != nil {
		parent, signer = a.cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	a.write(t, name+".pem", "CERTIFICATE", der)
	a.write(t, name+"-key.pem", "PRIVATE KEY", secret)
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

func (a *authority) write(t *testing.T, file, kind string, der []byte) {
	t.Helper()
	text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(a.path(file), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestClusterWithCertificatesAndPassword(t *testing.T) {
	ca := newAuthority(t)
	cert, key := ca.issue(t, "holdfast")
	e := harness.StartEtcd(t, 1, func(settings map[string]any) {
		listens, err := url.Parse(settings["listen-client-urls"].(string))
		if err != nil {
			t.Fatal(err)
		}
		serverCert, serverKey := ca.issue(t, "server", listens.Hostname())
		for _, name := range []string{"listen-client-urls", "advertise-client-urls"} {
			settings[name] = "https" + settings[name].(string)[len("http"):]
		}
		settings["client-transport-security"] = map[string]any{
			"cert-file": serverCert, "key-file": serverKey,
			"trusted-ca-file": ca.path("ca.pem"), "client-cert-auth": true,
		}
	})
	endpoint := "https://" + e.Members[0].Addr
	trust := []string{"--listen=127.0.0.1:0", "--etcd=" + endpoint, "--etcd-timeout=1s", "--etcd-ca=" + ca.path("ca.pem")}
	cards := append(trust[:len(trust):len(trust)], "--etcd-cert="+cert, "--etcd-key="+key)

	requirePassword(t, endpoint, ca, cert, key)
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	login := append(cards[:len(cards):len(cards)], "--etcd-user=root", "--etcd-password-file="+password)
	r := harness.Start(t, login...)
	acquire(t, r.Client(), "deploy", aliceToken)

	const within = atOnce + time.Second
	refused(t, harness.Command(t, "--listen=127.0.0.1:0", "--etcd="+endpoint, "--etcd-timeout=1s"), within, "--etcd", "certificate")
	refused(t, harness.Command(t, trust...), within, "--etcd", endpoint, "certificate required")
	refused(t, harness.Command(t, cards...), within, "--etcd", "permission denied")
	if err := os.WriteFile(password, []byte("wrong\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, harness.Command(t, login...), within, "--etcd", "password")
}

// requirePassword makes etcd ask for a user.
func requirePassword(t *testing.T, endpoint string, ca *authority, cert, key string) {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca.cert)
	c, err := clientv3.New(clientv3.Config{
		Endpoints: []string{endpoint},
		TLS:       &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
		Logger:    zap.NewNop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := c.UserAdd(ctx, "root", "secret"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.UserGrantRole(ctx, "root", "root"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.AuthEnable(ctx); err != nil {
		t.Fatal(err)
	}
}
