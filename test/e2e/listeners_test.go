package e2e_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// listeners returns what a process listens on over TCP.
func listeners(t *testing.T, pid int) []string {
	t.Helper()
	proc := fmt.Sprintf("/proc/%d/", pid)
	fds, err := os.ReadDir(proc + "fd")
	if err != nil {
		t.Skip("no /proc here")
	}
	ours := make(map[string]bool)
	for _, fd := range fds {
		target, _ := os.Readlink(proc + "fd/" + fd.Name())
		if inode, ok := strings.CutPrefix(target, "socket:["); ok {
			ours[strings.TrimSuffix(inode, "]")] = true
		}
	}
	const listening, state, inode = "0A", 3, 9 // columns of the table
	var found []string
	for _, table := range []string{"net/tcp", "net/tcp6"} {
		text, err := os.ReadFile(proc + table)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) > inode && f[state] == listening && ours[f[inode]] {
				found = append(found, f[1])
			}
		}
	}
	return found
}
