package service

import (
	"context"
	"errors"
	"time"
)

// Config is what the rules of the service depend on. Source: the flags.
type Config struct {
	Policy  Policy
	MaxWait time.Duration // the longest poll
}

// Service applies the rules that no store needs to know: the longest poll,
// tokens chosen for clients, draining.
type Service struct {
	store    Store
	cfg      Config
	draining context.Context
	drain    context.CancelCauseFunc
}

// errDraining is the cause with which waits end when the replica drains.
var errDraining = errors.New("draining")

// New returns a Service on store.
func New(store Store, cfg Config) *Service {
	ctx, cancel := context.WithCancelCause(context.Background())
	return &Service{store: store, cfg: cfg, draining: ctx, drain: cancel}
}

// Drain ends every wait with KindDraining, and every later one at once. Guards
// and releases go on. It may be called again.
func (s *Service) Drain() { s.drain(errDraining) }

// Ready returns nil when requests are welcome.
func (s *Service) Ready(ctx context.Context) error {
	if s.draining.Err() != nil {
		return s.drainingError("")
	}
	return s.store.Ready(ctx)
}

// waiting returns a context that also ends when the replica drains.
func (s *Service) waiting(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if s.draining.Err() != nil {
		cancel(errDraining) // AfterFunc would, but in its own time
	}
	stop := context.AfterFunc(s.draining, func() { cancel(errDraining) })
	return ctx, func() { stop(); cancel(nil) }
}

// ended turns the end of a wait by draining into its kind.
func (s *Service) ended(name Name, err error) error {
	if errors.Is(err, errDraining) {
		return s.drainingError(name)
	}
	return err
}

func (s *Service) drainingError(name Name) error {
	return &Error{Kind: KindDraining, Mutex: name, Detail: "this replica is going away", RetryAfter: time.Second}
}
