// Package operate does what docs/operations.md says: it runs the page's
// commands, with etcd's own tools, against real members, and looks at what
// becomes of owners and waiters meanwhile.
package operate_test

import (
	"flag"
	"os"
	"testing"

	"github.com/holdfast-lock/holdfast/test/harness"
)

func TestMain(m *testing.M) {
	flag.Parse()
	parallel := flag.Lookup("test.parallel")
	if parallel.Value.String() == parallel.DefValue {
		// These tests wait for windows most of the time.
		if err := parallel.Value.Set("8"); err != nil {
			panic(err)
		}
	}
	status := harness.Main(m)
	tools.remove()
	os.Exit(status)
}
