package embedetcd

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// bridge is a zap core that hands etcd's log to slog, from warnings upwards,
// and keeps its fatal messages from ending the process.
type bridge struct {
	log    *slog.Logger
	fields []zapcore.Field
	*bridgeState
}

// bridgeState is what a bridge shares with those made from it by With.
type bridgeState struct {
	fatal   chan error // the first fatal message
	dead    atomic.Bool
	stopped atomic.Bool
}

func newBridge(log *slog.Logger) *bridge {
	return &bridge{log: log.With("component", "etcd"), bridgeState: &bridgeState{fatal: make(chan error, 1)}}
}

// close keeps back what etcd says of its listeners when it is stopped: it
// calls that errors.
func (b *bridge) close() { b.stopped.Store(true) }

// zap returns a logger on the bridge. A message at level fatal or panic ends
// its goroutine only, and is then the error of Start, or of Err: a process
// that exits or panics deep inside a library says nothing that a user could
// read, and gives nothing back.
func (b *bridge) zap() *zap.Logger {
	return zap.New(b, zap.WithFatalHook(lastWords{b}), zap.WithPanicHook(lastWords{b}))
}

// failed reports whether a fatal message was logged.
func (b *bridge) failed() bool { return b.dead.Load() }

// usual are complaints about how the member is meant to run.
var usual = map[string]bool{
	"Running http and grpc server on single port. This is not recommended for production.": true,
	"simple token is not cryptographically signed":                                         true, // nobody logs in

	// Of a new member, before its first commit; it tries again 5 s later.
	// Nothing but a downgrade of etcd reads that version.
	"Failed to detect schema version":  true,
	"failed to update storage version": true,
}

// Enabled implements zapcore.Core.
func (b *bridge) Enabled(l zapcore.Level) bool { return l >= zapcore.WarnLevel }

// With implements zapcore.Core.
func (b *bridge) With(fields []zapcore.Field) zapcore.Core {
	c := *b
	c.fields = append(c.fields[:len(c.fields):len(c.fields)], fields...)
	return &c
}

// Check implements zapcore.Core.
func (b *bridge) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !b.Enabled(e.Level) || usual[e.Message] || b.stopped.Load() {
		return ce
	}
	return ce.AddCore(e, b)
}

// Write implements zapcore.Core.
func (b *bridge) Write(e zapcore.Entry, fields []zapcore.Field) error {
	level := slog.LevelWarn
	if e.Level > zapcore.WarnLevel {
		level = slog.LevelError
	}
	values := encode(b.fields, fields)
	attrs := make([]slog.Attr, 0, len(values))
	for k, v := range values {
		attrs = append(attrs, slog.Any(k, v))
	}
	b.log.LogAttrs(context.Background(), level, e.Message, attrs...)
	return nil
}

// Sync implements zapcore.Core.
func (b *bridge) Sync() error { return nil }

func encode(lists ...[]zapcore.Field) map[string]any {
	enc := zapcore.NewMapObjectEncoder()
	for _, fields := range lists {
		for _, f := range fields {
			f.AddTo(enc)
		}
	}
	return enc.Fields
}

// lastWords runs after a message at level fatal or panic was written.
type lastWords struct{ *bridge }

// OnWrite implements zapcore.CheckWriteHook.
func (l lastWords) OnWrite(e *zapcore.CheckedEntry, fields []zapcore.Field) {
	l.dead.Store(true)
	text := e.Message
	if cause, ok := encode(fields)["error"]; ok {
		text = fmt.Sprintf("%s: %v", text, cause)
	}
	select {
	case l.fatal <- fmt.Errorf("%s", strings.Join(strings.Fields(text), " ")):
	default: // somebody spoke first
	}
	runtime.Goexit()
}
