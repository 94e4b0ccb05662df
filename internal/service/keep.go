package service

import "context"

// PartyOf returns the party of a guard or release: without a contender it is
// the one that the token stands for.
func PartyOf(c ContenderID, t Token) Party {
	if c == "" {
		c = Anonymous(t)
	}
	return NewParty(c, t)
}

// Guard renews an ownership. Errors: as of Store.Guard.
func (s *Service) Guard(ctx context.Context, req GuardRequest) (Ownership, error) {
	return s.store.Guard(ctx, req)
}

// GuardMany renews many ownerships, with an outcome for each, in order.
func (s *Service) GuardMany(ctx context.Context, reqs []GuardRequest) []GuardResult {
	return s.store.GuardMany(ctx, reqs)
}

// Release gives back, or leaves the line. Errors: as of Store.Release.
func (s *Service) Release(ctx context.Context, req ReleaseRequest) (Released, error) {
	return s.store.Release(ctx, req)
}

// Break ends an ownership against its owner's will. Errors: as of Store.Break.
func (s *Service) Break(ctx context.Context, req BreakRequest) (PastOwnership, error) {
	return s.store.Break(ctx, req)
}

// Check returns the fence of the current ownership, 0 for none.
func (s *Service) Check(ctx context.Context, name Name) (Fence, error) {
	return s.store.Check(ctx, name)
}
