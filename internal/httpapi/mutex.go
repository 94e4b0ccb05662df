package httpapi

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-lock/holdfast/internal/httpapi/apigen"
	"github.com/holdfast-lock/holdfast/internal/service"
)

// GetMutex implements GET /v1/mutexes/{mutex}.
func (s *server) GetMutex(ctx context.Context, req apigen.GetMutexRequestObject) (apigen.GetMutexResponseObject, error) {
	ctx = plain(ctx)
	name, err := service.ParseName("mutex", req.Mutex)
	if err != nil {
		return nil, err
	}
	m, err := s.svc.Mutex(ctx, service.ReadRequest{
		Mutex: name,
		After: (*service.Revision)(req.Params.Revision),
		Wait:  duration(value(req.Params.WaitMs)),
	})
	if err != nil {
		return nil, err
	}
	return apigen.GetMutex200JSONResponse{
		Body:    mutexOf(m, time.Now()),
		Headers: apigen.GetMutex200ResponseHeaders{ETag: etagOf(m)},
	}, nil
}

// DeclareMutex implements PUT /v1/mutexes/{mutex}.
func (s *server) DeclareMutex(ctx context.Context, req apigen.DeclareMutexRequestObject) (apigen.DeclareMutexResponseObject, error) {
	ctx = plain(ctx)
	name, err := service.ParseName("mutex", req.Mutex)
	if err != nil {
		return nil, err
	}
	settings, err := settingsFrom(*req.Body, s.svc.Defaults())
	if err != nil {
		return nil, err
	}
	condition, err := precondition(req.Params.IfMatch, req.Params.IfNoneMatch != nil)
	if err != nil {
		return nil, err
	}
	m, created, err := s.svc.Declare(ctx, service.DeclareRequest{Mutex: name, Settings: settings, If: condition})
	if err != nil {
		return nil, err
	}
	body, etag := mutexOf(m, time.Now()), etagOf(m)
	if created {
		return apigen.DeclareMutex201JSONResponse{Body: body, Headers: apigen.DeclareMutex201ResponseHeaders{ETag: etag}}, nil
	}
	return apigen.DeclareMutex200JSONResponse{Body: body, Headers: apigen.DeclareMutex200ResponseHeaders{ETag: etag}}, nil
}

// RemoveMutex implements DELETE /v1/mutexes/{mutex}.
func (s *server) RemoveMutex(ctx context.Context, req apigen.RemoveMutexRequestObject) (apigen.RemoveMutexResponseObject, error) {
	ctx = plain(ctx)
	name, err := service.ParseName("mutex", req.Mutex)
	if err != nil {
		return nil, err
	}
	condition, err := precondition(req.Params.IfMatch, false)
	if err != nil {
		return nil, err
	}
	if err := s.svc.Remove(ctx, service.RemoveRequest{Mutex: name, Force: value(req.Params.Force), If: condition}); err != nil {
		return nil, err
	}
	return apigen.RemoveMutex204Response{}, nil
}

// etagOf is the entity tag of what is declared: the revision at which it was.
func etagOf(m service.Mutex) *string {
	if m.Declaration == 0 {
		return nil
	}
	return ptr(strconv.Quote(strconv.FormatInt(int64(m.Declaration), 10)))
}

// noRevision matches nothing that is declared.
const noRevision service.Revision = -1

// precondition takes the two headers. A tag that is not one of ours, or a weak
// one, is well-formed and matches nothing.
func precondition(ifMatch *string, absent bool) (service.Precondition, error) {
	p := service.Precondition{Absent: absent}
	if ifMatch == nil {
		return p, nil
	}
	if absent {
		return p, service.Invalid("If-Match", "goes not together with If-None-Match")
	}
	p.Match = noRevision
	if n, err := strconv.ParseInt(strings.Trim(*ifMatch, `"`), 10, 64); err == nil && n > 0 {
		p.Match = service.Revision(n)
	}
	return p, nil
}

// settingsFrom completes a declaration with the defaults.
func settingsFrom(d apigen.MutexDeclaration, defaults service.Settings) (service.Settings, error) {
	if d.Contenders != nil {
		return service.Settings{}, service.Invalid("contenders", "needs a server that verifies bearer tokens")
	}
	s := defaults
	s.Description = value(d.Description)
	if d.TtlMs != nil {
		s.TTL = duration(*d.TtlMs)
	}
	if d.TransitionMs != nil {
		s.Transition = duration(*d.TransitionMs)
	}
	s.MaxHold = duration(value(d.MaxHoldMs))
	s.MaxWaiters = value(d.MaxWaiters)
	s.Labels = value(d.Labels)
	return s, checkLabels(s.Labels)
}

// labelKey has no equals sign, which ends it in a filter.
var labelKey = regexp.MustCompile(`^[A-Za-z0-9._/-]{1,63}$`)

func checkLabels(labels map[string]string) error {
	for key := range labels {
		if !labelKey.MatchString(key) {
			return service.Invalid("labels", "a key must match "+labelKey.String())
		}
	}
	return nil
}
