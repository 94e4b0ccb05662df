package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// Etcd is a cluster of etcd members, each a process of its own, on loopback.
type Etcd struct {
	Members []*Member
	t       testing.TB
}

// Member is a running etcd member.
type Member struct {
	*Process
	Addr string // host:port for clients

	config string
	env    []string
}

// site is where a member is, and how it sees the others.
type site struct {
	client, peer string   // it listens there, host:port
	advertised   string   // where the other members look for it, host:port
	env          []string // besides that of the tests
}

// StartEtcd starts a cluster and returns when every member answers. edits may
// change a member's settings, those of etcd's configuration file.
func StartEtcd(t testing.TB, members int, edits ...func(settings map[string]any)) *Etcd {
	t.Helper()
	ports := freePorts(t, newHost(), 2*members)
	sites := make([]site, members)
	for i := range sites {
		sites[i] = site{client: ports[2*i], peer: ports[2*i+1], advertised: ports[2*i+1]}
	}
	return startEtcd(t, sites, edits)
}

func startEtcd(t testing.TB, sites []site, edits []func(settings map[string]any)) *Etcd {
	t.Helper()
	peers := make([]string, len(sites))
	for i, s := range sites {
		peers[i] = fmt.Sprintf("m%d=http://%s", i, s.advertised)
	}
	e := &Etcd{t: t}
	for i, s := range sites {
		settings := map[string]any{
			"name":                        fmt.Sprintf("m%d", i),
			"data-dir":                    Dir(t),
			"listen-client-urls":          "http://" + s.client,
			"advertise-client-urls":       "http://" + s.client,
			"listen-peer-urls":            "http://" + s.peer,
			"initial-advertise-peer-urls": "http://" + s.advertised,
			"initial-cluster":             strings.Join(peers, ","),
			"log-level":                   "warn",
		}
		for _, edit := range edits {
			edit(settings)
		}
		m := &Member{Addr: s.client, config: writeConfig(t, settings), env: s.env}
		e.Members = append(e.Members, m.launched(t, fmt.Sprintf("member %d", i)))
	}
	for _, m := range e.Members {
		m.ready()
	}
	return e
}

// writeConfig writes etcd's configuration file. It is YAML, of which JSON is a
// part.
func writeConfig(t testing.TB, settings map[string]any) string {
	t.Helper()
	text, err := json.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "etcd.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// launched returns the member as a new process.
func (m Member) launched(t testing.TB, name string) *Member {
	t.Helper()
	cmd := exec.Command(programs.program(t, "test/etcdmember"), m.config)
	cmd.Env = append(os.Environ(), m.env...)
	m.Process = launch(t, name, cmd)
	return &m
}

func (m *Member) ready() {
	m.t.Helper()
	m.await("ready", func(line string) bool { return line == "ready" })
}

// Again starts a member that has ended once more, on its data. It returns at
// once: without a majority the member is not ready.
func (m *Member) Again() *Member {
	m.t.Helper()
	m.Wait(startTimeout)
	return m.launched(m.t, m.name)
}

// Endpoints returns the value of --etcd.
func (e *Etcd) Endpoints() string {
	addrs := make([]string, len(e.Members))
	for i, m := range e.Members {
		addrs[i] = m.Addr
	}
	return strings.Join(addrs, ",")
}

// Client returns a client of the whole cluster; it is closed with the test.
func (e *Etcd) Client() *clientv3.Client {
	e.t.Helper()
	c, err := clientv3.New(clientv3.Config{
		Endpoints: strings.Split(e.Endpoints(), ","),
		Logger:    zap.NewNop(),
	})
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { _ = c.Close() })
	return c
}

// Leader returns the index of the member that leads. It waits until one does.
// Of two who think so, as when one is cut off, it is the one elected later.
func (e *Etcd) Leader() int {
	e.t.Helper()
	c := e.Client()
	for end := time.Now().Add(startTimeout); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		leader, latest := 0, uint64(0)
		for i, m := range e.Members {
			if term := m.leads(c); term > latest {
				leader, latest = i, term
			}
		}
		if latest > 0 {
			return leader
		}
	}
	e.t.Fatalf("etcd has no leader after %v", startTimeout)
	return 0
}

// leads returns the term for which the member leads, 0 when it does not.
func (m *Member) leads(c *clientv3.Client) uint64 {
	if m.Ended() {
		return 0
	}
	// A member that is paused does not answer; half a second is plenty for
	// one that is not.
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	status, err := c.Status(ctx, m.Addr)
	if err != nil || status.Header.MemberId != status.Leader {
		return 0
	}
	return status.RaftTerm
}

// freePorts returns addresses of a host that nobody listens on. Somebody
// could take one before it is used; they come from the range that the system
// gives out in turn, so that it does not give the same ones soon again.
func freePorts(t testing.TB, host string, n int) []string {
	t.Helper()
	addrs := make([]string, n)
	for i := range addrs {
		l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close() // after all were chosen, so that they differ
		addrs[i] = l.Addr().String()
	}
	return addrs
}
