package torture_test

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// elsewhere is a client that is a process of its own, so that it can be killed.
type elsewhere struct {
	p      *party
	cmd    *exec.Cmd
	answer *bufio.Reader
}

// elsewhere acquires in another process.
func (p *party) elsewhere(mutex string, ws ...with) *elsewhere {
	p.t.Helper()
	body, err := json.Marshal(p.body(ws...))
	if err != nil {
		p.t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		p.t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), contendAt+"="+p.s.URL()+"/v1/mutexes/"+mutex+"/acquire", contendWith+"="+string(body))
	stay, err := cmd.StdinPipe() // it ends with this process at the latest
	if err != nil {
		p.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	e := &elsewhere{p: p, cmd: cmd, answer: bufio.NewReader(out)}
	p.t.Cleanup(func() { e.kill(); _ = stay.Close() })
	return e
}

// isTold waits for the answer, which must have this status.
func (e *elsewhere) isTold(status int) {
	e.p.t.Helper()
	line, err := e.answer.ReadString('\n')
	if err != nil && err != io.EOF || !strings.HasPrefix(line, strconv.Itoa(status)+" ") {
		e.p.t.Fatalf("%s, elsewhere: got %q, %v; want status %d", e.p.name, line, err, status)
	}
}

// kill ends it as it is, kill -9. It may be killed again.
func (e *elsewhere) kill() {
	_ = e.cmd.Process.Kill()
	_ = e.cmd.Wait()
}
