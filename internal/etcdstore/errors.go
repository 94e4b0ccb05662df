package etcdstore

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// retryAfter is what a client is told to wait when etcd does not answer: an
// election takes about as long.
const retryAfter = time.Second

// refused are the errors with which etcd refuses a request before it proposes
// it: nothing was changed.
var refused = []error{
	rpctypes.ErrNoSpace, rpctypes.ErrTooManyRequests, rpctypes.ErrNoLeader, rpctypes.ErrNotCapable,
	rpctypes.ErrPermissionDenied, rpctypes.ErrUserEmpty, rpctypes.ErrAuthFailed, rpctypes.ErrInvalidAuthToken,
	rpctypes.ErrRequestTooLarge, rpctypes.ErrLeaseNotFound, rpctypes.ErrCorrupt,
}

// unwritten maps the error of a transaction that may write.
func unwritten(name service.Name, err error) error {
	if known := (*service.Error)(nil); err == nil || errors.As(err, &known) {
		return err
	}
	if isRefused(err) {
		return unread(name, err)
	}
	return unknown(name, err)
}

// unknown says that something may or may not have happened.
func unknown(name service.Name, err error) error {
	return &service.Error{
		Kind: service.KindOutcomeUnknown, Mutex: name, Detail: "etcd did not answer; repeat the call to learn the outcome",
		RetryAfter: retryAfter, Err: err,
	}
}

// unread maps the error of a read, or of a write that certainly did not
// happen.
func unread(name service.Name, err error) error {
	if known := (*service.Error)(nil); err == nil || errors.As(err, &known) {
		return err
	}
	e := &service.Error{
		Kind: service.KindUnavailable, Mutex: name, Detail: "etcd did not answer",
		RetryAfter: retryAfter, Err: err,
	}
	switch {
	case is(err, rpctypes.ErrNoSpace):
		e.Detail = "etcd is out of space; an operator must act"
	case is(err, rpctypes.ErrCorrupt):
		e.Detail = "etcd says that its data is corrupt; an operator must act"
	case isRefused(err):
		e.Detail = "etcd refused the request"
	}
	return e
}

func isRefused(err error) bool {
	for _, r := range refused {
		if is(err, r) {
			return true
		}
	}
	return false
}

// is compares with one of rpctypes' errors, whichever of the client's two
// forms err has: the typed one, or a gRPC status with the same words.
func is(err, target error) bool {
	if err == nil {
		return false // as nearly always
	}
	if errors.Is(err, target) {
		return true
	}
	s, ok := status.FromError(err)
	return ok && s.Code() != codes.Unknown && s.Message() == rpctypes.ErrorDesc(target)
}

func leaseGone(err error) bool { return is(err, rpctypes.ErrLeaseNotFound) }

// ended returns why ctx ended, as service.Store has it.
func ended(ctx context.Context) error { return context.Cause(ctx) }
