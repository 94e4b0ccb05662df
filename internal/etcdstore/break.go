package etcdstore

import (
	"cmp"
	"context"
	"errors"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// Break implements service.Store.
func (s *Store) Break(ctx context.Context, req service.BreakRequest) (service.PastOwnership, error) {
	name := req.Mutex
	tried := false
	for ctx.Err() == nil {
		_, _, err := s.readMutex(name)
		if err != nil && !errors.Is(err, service.Of(service.KindMutexNotDeclared)) {
			return service.PastOwnership{}, err
		}
		v := s.view.look(name, "", false)
		if v.owner == nil || v.owner.fence != req.Fence {
			past, refusal := s.brokenBefore(req, &v)
			if refusal == nil && tried { // it was this call, sent twice
				s.audit(name, past.Contender, past.Fence, past.Reason)
			}
			if refusal != nil {
				refusal = cmp.Or(err, refusal)
			}
			return past, refusal
		}
		tried = true
		out, err := s.end(name, v.owner, ending{how: service.EndedBroken, reason: req.Reason})
		if err != nil {
			return service.PastOwnership{}, unwritten(name, err)
		}
		if out.done {
			s.audit(name, v.owner.rec.Contender, v.owner.fence, req.Reason)
			return out.past.past(), nil
		}
	}
	return service.PastOwnership{}, ended(ctx)
}

func (s *Store) audit(name service.Name, who service.ContenderID, fence service.Fence, reason string) {
	s.log.Warn("lock broken", "audit", true, "mutex", name, "contender_id", who, "fencing_token", fence, "reason", reason)
}

// brokenBefore answers a break that was done already, or that names an
// ownership which is not the present one.
func (s *Store) brokenBefore(req service.BreakRequest, v *sight) (service.PastOwnership, error) {
	past, err := s.settledOf(req.Mutex)
	if err != nil {
		return service.PastOwnership{}, err
	}
	for _, rec := range past {
		if rec.Fence == req.Fence && rec.Ended == service.EndedBroken {
			return rec.past(), nil
		}
	}
	e := &service.Error{
		Kind: service.KindPreconditionFailed, Mutex: req.Mutex, Field: "fencing_token",
		Detail: "this is not the fencing token of the present ownership",
	}
	if v.owner != nil {
		o := s.ownership(v.owner)
		e.Holder = &o
	}
	return service.PastOwnership{}, e
}
