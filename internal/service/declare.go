package service

import "context"

// Defaults are the settings of a mutex that declares nothing.
func (s *Service) Defaults() Settings {
	return Settings{TTL: s.cfg.Policy.DefaultTTL, Transition: s.cfg.Policy.DefaultTransition}
}

// Declare stores settings. Errors: as of Store.Declare.
func (s *Service) Declare(ctx context.Context, req DeclareRequest) (m Mutex, created bool, err error) {
	return s.store.Declare(ctx, req)
}

// Remove forgets settings. Errors: as of Store.Remove.
func (s *Service) Remove(ctx context.Context, req RemoveRequest) error {
	return s.store.Remove(ctx, req)
}
