package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-lock/holdfast/bench/load"
	"github.com/holdfast-lock/holdfast/bench/lock"
	"github.com/holdfast-lock/holdfast/bench/rig"
)

// crowd is a process of its own that waits: a process may have 20,000
// connections, and this one has its own to make.
type crowd struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// gather starts a process in which so many wait, for mutexes that somebody
// there owns, and returns when all are in line.
func gather(addr, mutex string, waiters, mutexes int) (*crowd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &crowd{cmd: exec.Command(self, "crowd", "--addr="+addr, "--mutex="+mutex,
		"--waiters="+strconv.Itoa(waiters), "--mutexes="+strconv.Itoa(mutexes))}
	c.cmd.Stderr = os.Stderr
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewScanner(out)
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	if line := c.line(); line != "ready" {
		c.disperse()
		return nil, fmt.Errorf("the crowd of %d: %q", waiters, line)
	}
	return c, nil
}

func (c *crowd) line() string {
	if !c.out.Scan() {
		return ""
	}
	return c.out.Text()
}

// passes has the first mutex passed on so many times, down its line, and
// returns how long each took.
func (c *crowd) passes(times int) ([]time.Duration, error) {
	if _, err := fmt.Fprintln(c.in, times); err != nil {
		return nil, err
	}
	var took []time.Duration
	line := c.line()
	if err := json.Unmarshal([]byte(line), &took); err != nil {
		return nil, fmt.Errorf("the crowd: %q: %w", line, err)
	}
	return took, nil
}

// disperse ends the process, and with it all of its polls.
func (c *crowd) disperse() {
	_ = c.in.Close()
	_ = c.cmd.Wait()
}

// Crowd is that process. It says "ready", reads how often the first mutex is
// to be passed on, answers with nanoseconds, and ends when nothing is to be
// read any more.
type Crowd struct {
	Addr    string
	Mutex   string
	Waiters int
	Mutexes int
}

// Run is called by kong.
func (c *Crowd) Run() error {
	api := lock.Holdfast{HTTP: lock.NewHTTP(c.Addr)}
	owner := &waiter{contender: "owner", token: lock.NewToken()}
	for i := range c.Mutexes {
		if err := api.AcquireAs(c.name(i), owner.contender, owner.token, hour); err != nil {
			return err
		}
	}
	line, err := c.join(api)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		times, err := strconv.Atoi(in.Text())
		if err != nil {
			return err
		}
		took, err := c.passOn(api, append([]*waiter{owner}, line[:times]...))
		if err != nil {
			return err
		}
		owner, line = line[times-1], line[times:]
		if err := json.NewEncoder(os.Stdout).Encode(took); err != nil {
			return err
		}
	}
	return nil
}

// passOn has each of those in turn release, and the next own.
func (c *Crowd) passOn(api lock.Holdfast, turns []*waiter) (took []time.Duration, err error) {
	for i, next := range turns[1:] {
		begin := time.Now()
		if err := api.ReleaseAs(c.name(0), turns[i].contender, turns[i].token); err != nil {
			return nil, err
		}
		if err := next.owns(); err != nil {
			return nil, err
		}
		took = append(took, time.Since(begin))
	}
	return took, nil
}

func (c *Crowd) name(i int) string { return fmt.Sprintf("%s-%d", c.Mutex, i) }

// waiter is one open poll, as cheap as it can be.
type waiter struct {
	contender, token string
	conn             net.Conn
}

// join sends all polls, a few at a time, and returns those for the first mutex
// in order of its line once all are in line.
func (c *Crowd) join(api lock.Holdfast) ([]*waiter, error) {
	const atOnce = 32
	var line []*waiter
	all := make([]*waiter, c.Waiters)
	for from := 0; from < c.Waiters; from += atOnce {
		if err := load.Each(min(atOnce, c.Waiters-from), func(i int) (err error) {
			all[from+i], err = c.poll(from + i)
			return err
		}); err != nil {
			return nil, err
		}
	}
	for i := range c.Mutexes {
		want := (c.Waiters + c.Mutexes - 1 - i) / c.Mutexes
		names, err := c.inLine(api, c.name(i), want)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			continue
		}
		for _, name := range names {
			n, err := strconv.Atoi(name)
			if err != nil {
				return nil, err
			}
			line = append(line, all[n])
		}
	}
	return line, nil
}

// poll sends one request that waits, by a contender that is called by its
// number.
func (c *Crowd) poll(number int) (*waiter, error) {
	w := &waiter{contender: strconv.Itoa(number), token: lock.NewToken()}
	var err error
	if w.conn, err = net.Dial("tcp", c.Addr); err != nil {
		return nil, err
	}
	body := fmt.Sprintf(`{"contender_id":"%s","token":"%s","wait_ms":%d,"ttl_ms":%d,"transition_ms":0}`, w.contender, w.token, rig.LongestPoll.Milliseconds(), hour.Milliseconds())
	_, err = fmt.Fprintf(w.conn, "POST /v1/mutexes/%s/acquire HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		c.name(number%c.Mutexes), c.Addr, len(body), body)
	return w, err
}

// owns returns when the poll is answered with a grant.
func (w *waiter) owns() error {
	defer w.conn.Close()
	answer := make([]byte, 4096)
	n, err := w.conn.Read(answer)
	if err != nil {
		return err
	}
	if status, _, _ := strings.Cut(string(answer[:n]), "\r\n"); !strings.Contains(status, " 200 ") {
		return errors.New(string(answer[:n]))
	}
	return nil
}

// inLine returns the contenders in line, in order, once there are so many.
func (c *Crowd) inLine(api lock.Holdfast, mutex string, want int) ([]string, error) {
	for begin := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		names, err := api.Waiters(mutex)
		if err != nil || len(names) == want {
			return names, err
		}
		if time.Since(begin) > time.Minute {
			return nil, fmt.Errorf("%s: %d wait, want %d", mutex, len(names), want)
		}
	}
}
