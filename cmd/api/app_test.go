package main

import (
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

func TestAppStartsAndStops(t *testing.T) {
	before := goleak.IgnoreCurrent()
	dir, err := os.MkdirTemp("", "hf") // short enough for a socket's path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	cfg, ok, err := parse([]string{"--listen=127.0.0.1:0", "--data-dir=" + filepath.Join(dir, "data")}, os.Stdout)
	if err != nil || !ok {
		t.Fatalf("got %v, %v", ok, err)
	}
	app := New(cfg, slog.New(slog.DiscardHandler))
	if err := app.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get("http://" + app.Addr().String() + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("got status %d of /readyz, want 200", resp.StatusCode)
	}
	app.Stop()
	app.Stop()
	select {
	case err := <-app.Err():
		t.Errorf("got error %v of an app that was stopped", err)
	default:
	}
	http.DefaultClient.CloseIdleConnections()
	goleak.VerifyNone(t, before)
}
