package harness_test

import (
	"net/http"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/holdfast-lock/holdfast/test/harness"
)

func TestMovedProgramBuilds(t *testing.T) {
	clock := harness.NewWallClock(t)
	cmd := exec.Command(harness.MovedProgram(t), "--help")
	cmd.Env = append(os.Environ(), clock.Env())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	_, _ = http.MethodGet, time.Now
}
