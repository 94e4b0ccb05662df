// Package rig starts what is measured, on loopback and one disk: etcd,
// Holdfast on the etcd inside it and on that etcd, and Redis.
package rig

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// startWithin bounds how long a process may take until it is ready.
const startWithin = 30 * time.Second

// Process is a program that runs.
type Process struct {
	name string
	cmd  *exec.Cmd
	log  *os.File
	stop sync.Once
}

// start starts a program, with its output in dir, and returns when ready does
// not fail any more.
func start(dir, name string, ready func() error, program string, args ...string) (*Process, error) {
	log, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		return nil, err
	}
	p := &Process{name: name, cmd: exec.Command(program, args...), log: log}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = endWithParent()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if err = ready(); err == nil {
			return p, nil
		}
		if time.Since(begin) > startWithin {
			p.Stop()
			text, _ := os.ReadFile(log.Name())
			return nil, fmt.Errorf("%s is not ready after %v: %w\n%s", name, startWithin, err, text)
		}
	}
}

// Stop ends the process and waits for that.
func (p *Process) Stop() {
	p.stop.Do(func() {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		kill := time.AfterFunc(20*time.Second, func() { _ = p.cmd.Process.Kill() })
		_ = p.cmd.Wait()
		kill.Stop()
		_ = p.log.Close()
	})
}

// RSS returns the resident memory in bytes. Source: /proc/PID/status.
func (p *Process) RSS() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		if kb, ok := strings.CutPrefix(lines.Text(), "VmRSS:"); ok {
			n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(kb), " kB"), 10, 64)
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("%s: no VmRSS", p.name)
}

// CPU returns the processor time that was used so far. Source:
// /proc/PID/stat, in ticks of 10 ms.
func (p *Process) CPU() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	// The name, in parentheses, may have spaces in it.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	user, err := strconv.Atoi(fields[11])
	if err != nil {
		return 0, err
	}
	system, err := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond, err
}

// freePorts returns loopback addresses that nobody listens on.
func freePorts(n int) ([]string, error) {
	var addrs []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}

// listens returns nil when something accepts connections there.
func listens(addr string) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	return c.Close()
}
