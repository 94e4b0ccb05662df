package harness

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Footprint is what a replica uses of the machine.
type Footprint struct {
	Sockets int   // open ones
	Threads int   // of the system
	RSS     int64 // memory that is there, bytes
}

// Footprint returns what the replica uses now. The test is skipped where there
// is no /proc to tell.
func (r *Replica) Footprint() Footprint {
	r.t.Helper()
	if _, err := os.Stat("/proc/self/status"); err != nil {
		r.t.Skip("no /proc here")
	}
	var f Footprint
	dir := fmt.Sprintf("/proc/%d/", r.PID())
	fds, err := os.ReadDir(dir + "fd")
	if err != nil {
		r.t.Fatalf("%s: %v", r.name, err)
	}
	for _, fd := range fds {
		if target, _ := os.Readlink(dir + "fd/" + fd.Name()); strings.HasPrefix(target, "socket:") {
			f.Sockets++
		}
	}
	status, err := os.ReadFile(dir + "status")
	if err != nil {
		r.t.Fatalf("%s: %v", r.name, err)
	}
	f.Threads = int(field(string(status), "Threads:"))
	f.RSS = field(string(status), "VmRSS:") << 10 // it is in kB
	return f
}

// field returns the number of a line of /proc/PID/status, 0 where there is no
// such line.
func field(status, name string) int64 {
	for line := range strings.Lines(status) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == name {
			n, _ := strconv.ParseInt(words[1], 10, 64)
			return n
		}
	}
	return 0
}

// Dump returns how many goroutines the replica has, and what they all do. The
// replica dies of it.
func (r *Replica) Dump() (goroutines int, text string) {
	r.t.Helper()
	r.Signal(syscall.SIGQUIT)
	r.Wait(startTimeout)
	text = r.Log()
	return strings.Count(text, "\ngoroutine "), text
}
