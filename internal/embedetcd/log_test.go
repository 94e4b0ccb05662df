package embedetcd

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
)

func TestFatalMessageIsTheErrorOfTheServer(t *testing.T) {
	dir, err := os.MkdirTemp("", "hf")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	var log bytes.Buffer
	s, err := Start(t.Context(), Config{
		Dir: filepath.Join(dir, "data"),
		Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan bool, 1)
	go func() {
		defer func() { ended <- recover() == nil }()
		s.log.zap().Fatal("disk is gone", zap.Error(errors.New("input/output error")))
		t.Error("a fatal message returned to who wrote it")
	}()
	if quiet := <-ended; !quiet {
		t.Error("a fatal message panicked")
	}
	select {
	case err := <-s.Err():
		if got, want := err.Error(), "etcd: disk is gone: input/output error"; got != want {
			t.Errorf("got error %q, want %q", got, want)
		}
	case <-time.After(5 * time.Second):
		t.Error("Err says nothing")
	}
	s.Stop() // returns although etcd is not whole any more
	if !strings.Contains(log.String(), `component=etcd error="input/output error"`) {
		t.Errorf("got log %q, want the message with its fields", log.String())
	}
}
