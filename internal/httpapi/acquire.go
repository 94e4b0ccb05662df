package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/holdfast-lock/holdfast/internal/httpapi/apigen"
	"github.com/holdfast-lock/holdfast/internal/service"
)

// AcquireMutex implements POST /v1/mutexes/{mutex}/acquire.
func (s *server) AcquireMutex(ctx context.Context, req apigen.AcquireMutexRequestObject) (apigen.AcquireMutexResponseObject, error) {
	ctx = plain(ctx)
	call, err := acquireCall(req)
	if err != nil {
		return nil, err
	}
	who, err := s.svc.Acquire(ctx, call)
	if err != nil {
		if call.Token == "" {
			err = &chosenToken{err: err, who: who}
		}
		return nil, err
	}
	return &grantAnswer{ctx: ctx, mutex: call.Mutex, who: who}, nil
}

func acquireCall(req apigen.AcquireMutexRequestObject) (call service.AcquireCall, err error) {
	if call.Mutex, err = service.ParseName("mutex", req.Mutex); err != nil {
		return call, err
	}
	body := req.Body
	if body.ContenderId != nil {
		if call.Contender, err = service.ParseContenderID(*body.ContenderId); err != nil {
			return call, err
		}
	}
	if body.Token != nil {
		if call.Token, err = service.ParseToken(*body.Token); err != nil {
			return call, err
		}
	}
	if body.WaitMs != nil {
		call.Wait = duration(*body.WaitMs)
	}
	call.Asked = service.Asked{TTL: optionalDuration(body.TtlMs), Transition: optionalDuration(body.TransitionMs)}
	call.Metadata = value(body.Metadata)
	return call, nil
}

// grantAnswer tells a client that it owns a mutex, and the store whether the
// client can have been told.
type grantAnswer struct {
	ctx   context.Context // of the request
	mutex service.Name
	who   service.Acquired
}

// VisitAcquireMutexResponse writes the answer.
func (g *grantAnswer) VisitAcquireMutexResponse(w http.ResponseWriter) error {
	told := false
	defer func() { // also on a panic
		if told {
			g.who.Grant.Told()
		} else {
			g.who.Grant.Lost()
		}
	}()
	body, err := json.Marshal(ownershipOf(g.mutex, g.who.Token, g.who.Grant.Ownership(), time.Now()))
	if err != nil {
		return err
	}
	if err := present(g.ctx); err != nil {
		return err
	}
	// No look after the write: a client may close as soon as it has read.
	if err := deliver(w, http.StatusOK, append(body, '\n')); err != nil {
		return err
	}
	told = true
	return nil
}

// chosenToken is the refusal of an acquire that sent no token.
type chosenToken struct {
	err error
	who service.Acquired
}

func (e *chosenToken) Error() string { return e.err.Error() }
func (e *chosenToken) Unwrap() error { return e.err }

// offerToken hands the token that was chosen to the one that it was chosen
// for, where another call with it makes sense: to keep the place in line, or
// to learn an outcome.
func offerToken(p *apigen.Problem, err error) {
	var chosen *chosenToken
	if !errors.As(err, &chosen) || p.Status != http.StatusLocked && p.Status != http.StatusServiceUnavailable {
		return
	}
	p.ContenderId = ptr(string(chosen.who.Contender))
	p.Token = ptr(string(chosen.who.Token))
}
