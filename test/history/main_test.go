// Package history_test lets clients that race, vanish, repeat themselves and
// come too late work on a few mutexes of the running program, writes down what
// each saw and when, and asks whether any order of events explains it all.
package history_test

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// The seed decides what the clients choose; when things happen it cannot.
var (
	seedFlag = flag.Uint64("history.seed", 0, "seed of the clients' choices; 0 for a new one")
	opsFlag  = flag.Int("history.ops", 12_000, "operations without faults until the clients end")

	durationFlag = flag.Duration("history.duration", 25*time.Second, "how long there are faults")
	keepFlag     = flag.String("history.keep", "", "directory for histories that cannot be; that for temporary files when left out")
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(harness.Main(m))
}
