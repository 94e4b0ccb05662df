package etcdstore

import (
	"context"
	"crypto/rand"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// Release implements service.Store.
func (s *Store) Release(ctx context.Context, req service.ReleaseRequest) (service.Released, error) {
	name, pair := req.Mutex, req.Party.Pair
	if req.OperationID == "" {
		// This call's own, by which it knows what it did when it is sent twice.
		req.OperationID = "~" + rand.Text()
	}
	var set standing
	for tries := 0; ctx.Err() == nil; tries++ {
		s.breathe(tries)
		v := s.view.look(name, pair, false)
		switch {
		case set.rec != nil && set.rec.OperationID == req.OperationID:
			// A late duplicate; whatever there is now came after it.
			return s.releasedBefore(req, set, &v)
		case v.owner != nil && v.owner.rec.Pair == pair:
			out, err := s.end(name, v.owner, ending{how: service.EndedReleased, opID: req.OperationID, settled: set.rev})
			if out.done {
				return service.ReleasedNow, nil
			}
			if err != nil {
				return 0, unwritten(name, err)
			}
			set = out.settled
		case v.mine != nil:
			out, err := s.leave(name, v.mine, req.OperationID, set.rev)
			if err != nil {
				return 0, err
			}
			if out.done {
				return service.LeftLine, nil
			}
			set = out.settled
		case set.isNothing():
			return s.releasedBefore(req, set, &v)
		default:
			found, err := s.refresh(name, pair)
			if err != nil {
				return 0, err
			}
			set = found
		}
	}
	return 0, ended(ctx)
}

// releasedBefore answers a release that found nothing to give back.
func (s *Store) releasedBefore(req service.ReleaseRequest, set standing, v *sight) (service.Released, error) {
	switch set.ending() {
	case service.EndedReleased:
		if set.rec.OperationID == req.OperationID {
			return service.ReleasedNow, nil
		}
		return service.ReleasedBefore, nil
	case service.EndedLeft:
		return service.LeftLine, nil
	}
	return 0, s.notOwner(req.Mutex, set, v)
}

// notOwner says what became of a party's ownership, and who owns now.
func (s *Store) notOwner(name service.Name, set standing, v *sight) *service.Error {
	e := &service.Error{Kind: service.KindNotOwner, Mutex: name, Ended: set.ending(), Fence: set.fence()}
	if set.ending() == service.EndedLeft {
		e.Ended = service.EndedUnknown // it only waited
	}
	if v.owner != nil {
		o := s.ownership(v.owner)
		e.Holder = &o
	}
	return e
}
