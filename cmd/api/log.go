package main

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"sync"
)

// newLog returns a logger on w whose lines are held back until open is called:
// a start that is refused says one line, and that is its error.
func newLog(w io.Writer, cfg Config) (log *slog.Logger, open func()) {
	held := &heldWriter{w: w}
	opts := &slog.HandlerOptions{Level: cfg.LogLevel}
	if cfg.LogFormat == "text" || cfg.LogFormat == "auto" && isTerminal(w) {
		return slog.New(slog.NewTextHandler(held, opts)), held.open
	}
	return slog.New(slog.NewJSONHandler(held, opts)), held.open
}

// heldWriter keeps what is written until it is opened.
type heldWriter struct {
	mu     sync.Mutex
	w      io.Writer
	isOpen bool         // guarded by mu
	held   bytes.Buffer // guarded by mu
}

// Write implements io.Writer.
func (h *heldWriter) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.isOpen {
		return h.w.Write(p)
	}
	return h.held.Write(p)
}

func (h *heldWriter) open() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.isOpen = true
	_, _ = h.held.WriteTo(h.w) // whom could a log tell that it cannot write
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
