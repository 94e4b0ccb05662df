package harness_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-lock/holdfast/test/harness"
)

func TestProcessPauses(t *testing.T) {
	t.Parallel()
	r := harness.Start(t, "--data-dir="+harness.Dir(t))
	c := r.Client()
	for range 20 {
		r.Pause()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		got, err := c.Call(ctx, "GET", "/readyz", nil)
		cancel()
		if err == nil {
			t.Fatalf("got %s from a process that is paused", got.Raw)
		}
		r.Resume()
		c.Must(t, "GET", "/readyz", nil).Want(t, 200)
	}
}

func TestReplicaIsMeasured(t *testing.T) {
	t.Parallel()
	r := harness.Start(t, "--data-dir="+harness.Dir(t))
	acquires(t, r.Client(), "deploy").Want(t, 200)
	before := r.Footprint()
	if before.Threads < 2 || before.RSS < 1<<20 {
		t.Errorf("got %+v, want threads and some megabytes", before)
	}
	const waiters = 20
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	for range waiters {
		go func() {
			_, _ = r.Client().Call(ctx, "POST", "/v1/mutexes/deploy/acquire", map[string]any{"wait_ms": 50_000})
		}()
	}
	eventually(t, "all wait", func() bool {
		return r.Client().Must(t, "GET", "/v1/mutexes/deploy", nil).Int("waiters") == waiters
	})
	if after := r.Footprint(); after.Sockets < before.Sockets+waiters {
		t.Errorf("got %d sockets with %d waiters, %d without", after.Sockets, waiters, before.Sockets)
	}
	n, text := r.Dump()
	if n < waiters || !strings.Contains(text, "net/http.(*conn).serve") {
		t.Errorf("got %d goroutines with %d waiters: %s", n, waiters, text)
	}
}
