package rig

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// Rig is everything that is measured. Redis is left out where nobody asks for
// it, or there is none for this machine.
type Rig struct {
	Etcd     *Service // one member, by gRPC, and by HTTP through its gateway
	Embedded *Service // Holdfast on the etcd inside it
	External *Service // Holdfast on Etcd
	Floor    *Service // what HTTP costs alone: this program's own "floor"
	Redis    *Service // without appending to a file
	Durable  *Service // Redis that syncs its file at every write

	dir   string
	tools string
	redis string // the program
	stops []func()
}

// LongestPoll is what the rig's Holdfasts allow.
const LongestPoll = 15 * time.Minute

// Service is a process that listens.
type Service struct {
	*Process
	Addr string
}

// Start builds Holdfast and a member of etcd from the module at root into
// tools, and starts everything, Redis included if that is asked for, with its
// data under dir, which decides on the disk.
func Start(root, tools, dir string, redis bool) (*Rig, error) {
	r := &Rig{tools: tools}
	var err error
	if r.redis, err = filepath.Abs(filepath.Join(root, "bench", "redis-server")); err != nil {
		return nil, err
	}
	if r.dir, err = os.MkdirTemp(dir, "holdfast-bench-"); err != nil {
		return nil, err
	}
	for name, pkg := range map[string]string{"holdfast": "./cmd/api", "etcdmember": "./test/etcdmember"} {
		cmd := exec.Command("go", "build", "-C", root, "-o", r.program(name), pkg)
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			return nil, fmt.Errorf("%v: %w", cmd, err)
		}
	}
	if err := r.startAll(redis); err != nil {
		r.Stop()
		return nil, err
	}
	return r, nil
}

func (r *Rig) startAll(redis bool) (err error) {
	if r.Etcd, err = r.startEtcd(); err != nil {
		return err
	}
	if r.Embedded, err = r.startHoldfast("embedded", "--data-dir="+filepath.Join(r.dir, "embedded")); err != nil {
		return err
	}
	if r.External, err = r.startHoldfast("external", "--etcd="+r.Etcd.Addr); err != nil {
		return err
	}
	if r.Floor, err = r.startFloor(); err != nil || !redis {
		return err
	}
	if err := exec.Command(r.redis, "--version").Run(); err != nil {
		fmt.Fprintf(os.Stderr, "Redis is left out: %v\n", err)
		return nil
	}
	if r.Redis, err = r.startRedis("redis", "--appendonly", "no"); err != nil {
		return err
	}
	r.Durable, err = r.startRedis("redis-durable", "--appendonly", "yes", "--appendfsync", "always")
	return err
}

// Stop ends everything, and removes its data.
func (r *Rig) Stop() {
	for i := len(r.stops) - 1; i >= 0; i-- {
		r.stops[i]()
	}
	_ = os.RemoveAll(r.dir)
}

func (r *Rig) program(name string) string { return filepath.Join(r.tools, name) }

func (r *Rig) start(name, addr string, ready func() error, program string, args ...string) (*Service, error) {
	p, err := start(r.dir, name, ready, program, args...)
	if err != nil {
		return nil, err
	}
	r.stops = append(r.stops, p.Stop)
	return &Service{p, addr}, nil
}

// startEtcd starts a member with the settings that Holdfast has for the one
// inside it; everything else is etcd's default.
func (r *Rig) startEtcd() (*Service, error) {
	addrs, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	client, peer := "http://"+addrs[0], "http://"+addrs[1]
	settings, err := json.Marshal(map[string]any{
		"name":                        "bench",
		"data-dir":                    filepath.Join(r.dir, "etcd"),
		"listen-client-urls":          client,
		"advertise-client-urls":       client,
		"listen-peer-urls":            peer,
		"initial-advertise-peer-urls": peer,
		"initial-cluster":             "bench=" + peer,
		"enable-grpc-gateway":         true,
		"quota-backend-bytes":         8 << 30,
		"auto-compaction-mode":        "periodic",
		"auto-compaction-retention":   "5m",
		"log-level":                   "warn",
	})
	if err != nil {
		return nil, err
	}
	config := filepath.Join(r.dir, "etcd.json")
	if err := os.WriteFile(config, settings, 0o600); err != nil {
		return nil, err
	}
	return r.start("etcd", addrs[0], func() error { return answers(client + "/health") }, r.program("etcdmember"), config)
}

func (r *Rig) startHoldfast(name string, args ...string) (*Service, error) {
	addrs, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(os.Stderr, "%s: profiles at http://%s/debug/pprof/\n", name, addrs[1])
	args = append(args, "--listen="+addrs[0], "--pprof="+addrs[1], "--log-level=warn", "--max-wait="+LongestPoll.String())
	return r.start(name, addrs[0], func() error { return answers("http://" + addrs[0] + "/readyz") }, r.program("holdfast"), args...)
}

func (r *Rig) startFloor() (*Service, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	addrs, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	return r.start("floor", addrs[0], func() error { return listens(addrs[0]) }, self, "floor", "--listen="+addrs[0])
}

func (r *Rig) startRedis(name string, args ...string) (*Service, error) {
	addrs, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(r.dir, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addrs[0])
	args = append([]string{"--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", ""}, args...)
	return r.start(name, addrs[0], func() error { return listens(addrs[0]) }, r.redis, args...)
}

// answers returns nil when a GET is answered with 200.
func answers(url string) error {
	resp, err := http.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	return nil
}
