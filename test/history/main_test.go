// Package history_test lets clients that race, vanish, repeat themselves and
// come too late work on a few mutexes of the running program, writes down what
// each saw and when, and asks whether any order of events explains it all.
package history_test

import (
	"flag"
	"os"
	"testing"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// The seed decides what the clients choose; when things happen it cannot.
var (
	seedFlag = flag.Uint64("history.seed", 0, "seed of the clients' choices; 0 for a new one")
	opsFlag  = flag.Int("history.ops", 20_000, "operations until the clients end")
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(harness.Main(m))
}
