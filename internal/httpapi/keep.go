package httpapi

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-lock/holdfast/internal/httpapi/apigen"
	"github.com/holdfast-lock/holdfast/internal/service"
)

// GuardMutex implements POST /v1/mutexes/{mutex}/guard.
func (s *server) GuardMutex(ctx context.Context, req apigen.GuardMutexRequestObject) (apigen.GuardMutexResponseObject, error) {
	ctx = plain(ctx)
	name, err := service.ParseName("mutex", req.Mutex)
	if err != nil {
		return nil, err
	}
	party, token, err := partyOf(req.Body.ContenderId, req.Body.Token)
	if err != nil {
		return nil, err
	}
	owned, err := s.svc.Guard(ctx, service.GuardRequest{Mutex: name, Party: party})
	if err != nil {
		return nil, err
	}
	return apigen.GuardMutex200JSONResponse(ownershipOf(name, token, owned, time.Now())), nil
}

// GuardMutexes implements POST /v1/guard.
func (s *server) GuardMutexes(ctx context.Context, req apigen.GuardMutexesRequestObject) (apigen.GuardMutexesResponseObject, error) {
	ctx = plain(ctx)
	items := req.Body.Ownerships
	reqs, err := guardRequests(items)
	if err != nil {
		return nil, err
	}
	results := s.svc.GuardMany(ctx, reqs)
	now := time.Now()
	outcomes := make([]apigen.BatchGuardOutcome, len(results))
	for i, r := range results {
		if outcomes[i], err = guardOutcome(reqs[i].Mutex, service.Token(items[i].Token), r, now); err != nil {
			return nil, err
		}
	}
	return apigen.GuardMutexes200JSONResponse{Results: outcomes}, nil
}

func guardRequests(items []apigen.BatchGuardItem) ([]service.GuardRequest, error) {
	reqs := make([]service.GuardRequest, len(items))
	for i, item := range items {
		name, err := service.ParseName("mutex", item.Mutex)
		if err != nil {
			return nil, inItem(i, err)
		}
		party, _, err := partyOf(item.ContenderId, item.Token)
		if err != nil {
			return nil, inItem(i, err)
		}
		reqs[i] = service.GuardRequest{Mutex: name, Party: party}
	}
	return reqs, nil
}

// inItem says where in the batch the field at fault is.
func inItem(i int, err error) error {
	var e *service.Error
	if !errors.As(err, &e) {
		return err
	}
	return service.Invalid(fmt.Sprintf("ownerships[%d].%s", i, e.Field), e.Detail)
}

// guardOutcome is one result of a batch. Kinds that it has no status for mean
// the same to the client as an unknown outcome: repeat it.
func guardOutcome(name service.Name, token service.Token, r service.GuardResult, now time.Time) (apigen.BatchGuardOutcome, error) {
	out := apigen.BatchGuardOutcome{Mutex: string(name)}
	if r.Err == nil {
		out.Status = apigen.GuardStatusGuarded
		out.Ownership = ptr(ownershipOf(name, token, r.Ownership, now))
		return out, nil
	}
	var e *service.Error
	if !errors.As(r.Err, &e) {
		return out, r.Err
	}
	switch e.Kind {
	case service.KindNotOwner:
		out.Status = apigen.GuardStatusNotOwner
		out.Ended = optional(apigen.Ending(e.Ended))
		out.Holder = ownerOf(e.Holder, now)
	case service.KindMaxHoldReached:
		out.Status = apigen.GuardStatusMaxHoldReached
	default:
		out.Status = apigen.GuardStatusOutcomeUnknown
	}
	return out, nil
}

// ReleaseMutex implements POST /v1/mutexes/{mutex}/release.
func (s *server) ReleaseMutex(ctx context.Context, req apigen.ReleaseMutexRequestObject) (apigen.ReleaseMutexResponseObject, error) {
	ctx = plain(ctx)
	name, err := service.ParseName("mutex", req.Mutex)
	if err != nil {
		return nil, err
	}
	party, _, err := partyOf(req.Body.ContenderId, req.Body.Token)
	if err != nil {
		return nil, err
	}
	outcome, err := s.svc.Release(ctx, service.ReleaseRequest{
		Mutex:       name,
		Party:       party,
		OperationID: value(req.Body.OperationId),
	})
	if err != nil {
		return nil, err
	}
	return apigen.ReleaseMutex200JSONResponse(releaseResultOf(outcome)), nil
}

func releaseResultOf(outcome service.Released) apigen.ReleaseResult {
	switch outcome {
	case service.ReleasedBefore:
		return apigen.ReleaseResult{Reason: ptr(apigen.ReleaseReasonAlreadyReleased)}
	case service.LeftLine:
		return apigen.ReleaseResult{Reason: ptr(apigen.ReleaseReasonLeftLine)}
	}
	return apigen.ReleaseResult{Released: true}
}

// CheckFencingToken implements POST /v1/mutexes/{mutex}/check.
func (s *server) CheckFencingToken(ctx context.Context, req apigen.CheckFencingTokenRequestObject) (apigen.CheckFencingTokenResponseObject, error) {
	ctx = plain(ctx)
	name, err := service.ParseName("mutex", req.Mutex)
	if err != nil {
		return nil, err
	}
	fence, err := s.svc.Check(ctx, name)
	if err != nil {
		return nil, err
	}
	return apigen.CheckFencingToken200JSONResponse{
		Current:      int64(fence) == req.Body.FencingToken,
		FencingToken: optional(int64(fence)),
	}, nil
}
