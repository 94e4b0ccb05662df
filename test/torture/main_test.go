// Package torture replays, on the real program with a real etcd, faults that
// users of other lock services reported. A test's name begins with the number
// of its fault, and its comment names the report.
//
// Rows that need long, or wear the machine down, run at their whole size with
// -torture.long, as make torture does, and smaller without.
//
// Bounds are of two kinds. "Never early" is held exactly, by the clock of the
// test alone: a window begins after its request was sent. "Seldom late" is held
// by medians, since anything can be late once on a busy machine.
package torture_test

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"testing"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// thorough asks for the whole size of everything.
var thorough = flag.Bool("torture.long", false, "run the long rows at their whole size")

// sized returns how much of something a row takes.
func sized[T any](fast, long T) T {
	if *thorough {
		return long
	}
	return fast
}

func TestMain(m *testing.M) {
	if url := os.Getenv(contendAt); url != "" {
		contend(url, os.Getenv(contendWith))
		return
	}
	flag.Parse()
	if !parallelGiven() {
		// These tests wait for windows most of the time.
		if err := flag.Set("test.parallel", "8"); err != nil {
			panic(err)
		}
	}
	os.Exit(harness.Main(m))
}

func parallelGiven() bool {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	return given
}

// With these variables this binary is a client that can be killed.
const (
	contendAt   = "TORTURE_CONTEND_AT"
	contendWith = "TORTURE_CONTEND_WITH"
)

// contend makes one request, prints the answer on a line of its own, and stays
// until it is killed.
func contend(url, body string) {
	resp, err := http.Post(url, "application/json", bytes.NewBufferString(body))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	text, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close() // the connection stays
	fmt.Printf("%d %s %v\n", resp.StatusCode, text, err)
	_, _ = io.Copy(io.Discard, os.Stdin)
}
