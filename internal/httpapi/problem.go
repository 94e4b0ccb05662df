package httpapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/holdfast-lock/holdfast/internal/httpapi/apigen"
	"github.com/holdfast-lock/holdfast/internal/service"
)

// refusal is how a kind of error looks on the wire.
type refusal struct {
	status int
	code   apigen.ProblemCode
	title  string
}

// refusals is the one mapping of the domain's kinds.
var refusals = map[service.Kind]refusal{
	service.KindInvalidArgument:    {http.StatusBadRequest, apigen.ProblemCodeInvalidArgument, "Invalid argument"},
	service.KindMutexNotDeclared:   {http.StatusNotFound, apigen.ProblemCodeMutexNotDeclared, "Mutex is not declared"},
	service.KindLocked:             {http.StatusLocked, apigen.ProblemCodeMutexLocked, "Mutex is locked"},
	service.KindTokenSpent:         {http.StatusConflict, apigen.ProblemCodeTokenSpent, "Token is spent"},
	service.KindSuperseded:         {http.StatusConflict, apigen.ProblemCodeSuperseded, "Superseded by a newer poll"},
	service.KindLeftLine:           {http.StatusConflict, apigen.ProblemCodeLeftLine, "The place in line was released"},
	service.KindNotOwner:           {http.StatusConflict, apigen.ProblemCodeNotOwner, "Not the owner"},
	service.KindMaxHoldReached:     {http.StatusConflict, apigen.ProblemCodeMaxHoldReached, "Held for as long as is allowed"},
	service.KindMutexHeld:          {http.StatusConflict, apigen.ProblemCodeMutexHeld, "Mutex is held"},
	service.KindPreconditionFailed: {http.StatusPreconditionFailed, apigen.ProblemCodePreconditionFailed, "Precondition failed"},
	service.KindTooManyWaiters:     {http.StatusTooManyRequests, apigen.ProblemCodeTooManyWaiters, "Too many waiters"},
	service.KindUnavailable:        {http.StatusServiceUnavailable, apigen.ProblemCodeUnavailable, "Unavailable"},
	service.KindDraining:           {http.StatusServiceUnavailable, apigen.ProblemCodeDraining, "Draining"},
	service.KindOutcomeUnknown:     {http.StatusServiceUnavailable, apigen.ProblemCodeOutcomeUnknown, "Outcome unknown"},
}

// transportError is an error that the domain does not know.
type transportError struct {
	refusal
	detail string
}

func (e *transportError) Error() string { return string(e.code) }

// What can go wrong before the domain is reached.
var (
	notFound = &transportError{refusal{http.StatusNotFound, apigen.ProblemCodeNotFound, "Not found"},
		"there is no such path; the contract is at /openapi.json"}
	methodNotAllowed = &transportError{refusal{http.StatusMethodNotAllowed, apigen.ProblemCodeMethodNotAllowed, "Method not allowed"},
		"the path has other methods, which are in the Allow header"}
	bodyTooLarge = &transportError{refusal{http.StatusRequestEntityTooLarge, apigen.ProblemCodeBodyTooLarge, "Body too large"},
		fmt.Sprintf("a body has at most %d bytes", maxBody)}
)

// internal is everything that nobody foresaw.
var internal = refusal{http.StatusInternalServerError, apigen.ProblemCodeInternal, "Internal error"}

// panicked is a panic of a handler.
type panicked struct{ value any }

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// malformedRequest is an error of the generated decoding, after the contract
// had nothing against the request. Its text can contain what was sent.
func malformedRequest(err error) error {
	return &service.Error{Kind: service.KindInvalidArgument, Detail: "the request does not fit the contract", Err: err}
}

// statusGone stands in the log for a request whose client left. Nobody sees
// it; an implicit 200 on a connection that is closed only halfway would be a
// lie.
const statusGone = 499

// refuse is the only writer of an error body. A handler that returns an error
// ends here.
func refuse(c *gin.Context, err error) {
	defer c.Abort()
	ev := eventOf(c)
	ev.err = err
	if c.Writer.Written() {
		return // what is broken is the answer itself
	}
	if gone(c, err) {
		c.Status(statusGone)
		return
	}
	p := problemOf(err)
	ev.code = p.Code
	if p.RetryAfterMs != nil {
		c.Header("Retry-After", strconv.FormatInt((*p.RetryAfterMs+999)/1000, 10))
	}
	body, err := json.Marshal(p)
	if err != nil {
		panic(err) // a struct of strings and numbers
	}
	c.Data(p.Status, "application/problem+json", append(body, '\n')) // for shells' sake
}

// gone reports whether there is nobody to answer. A body that came too slowly
// ends the request's context too, with the client still there.
func gone(c *gin.Context, err error) bool {
	return errors.Is(err, errGone) || c.Request.Context().Err() != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

// problemOf describes err to a client, without its cause.
func problemOf(err error) apigen.Problem {
	var fromDomain *service.Error
	var fromTransport *transportError
	switch {
	case errors.As(err, &fromDomain):
		if r, ok := refusals[fromDomain.Kind]; ok {
			p := r.problem(fromDomain.Detail)
			describe(&p, fromDomain)
			offerToken(&p, err)
			return p
		}
	case errors.As(err, &fromTransport):
		return fromTransport.problem(fromTransport.detail)
	}
	return internal.problem("")
}

func (r refusal) problem(detail string) apigen.Problem {
	return apigen.Problem{
		Type:   "urn:holdfast:problem:" + string(r.code),
		Title:  r.title,
		Status: r.status,
		Code:   r.code,
		Detail: optional(detail),
	}
}

// describe adds the fields that belong to the kind of e.
func describe(p *apigen.Problem, e *service.Error) {
	p.Mutex = optional(string(e.Mutex))
	if e.Field != "" {
		field := clip(e.Field)
		p.Field, p.Detail = &field, optional(field+": "+e.Detail)
	}
	p.Holder = ownerOf(e.Holder, time.Now())
	p.Ended = optional(apigen.Ending(e.Ended))
	p.FencingToken = optional(int64(e.Fence))
	switch e.Kind {
	case service.KindLocked:
		p.Waiters = &e.Waiters
		p.Place = optional(e.Place)
		p.WaitedMs = ptr(millis(e.Waited))
		p.RetryAfterMs = ptr(millis(e.RetryAfter))
	case service.KindTooManyWaiters, service.KindUnavailable, service.KindDraining, service.KindOutcomeUnknown:
		p.RetryAfterMs = ptr(millis(cmp.Or(e.RetryAfter, time.Second)))
	}
}

// maxField keeps a field's name, which the client may have made up, readable.
const maxField = 256

func clip(field string) string {
	if runes := []rune(field); len(runes) > maxField {
		return string(runes[:maxField]) + "…"
	}
	return field
}
