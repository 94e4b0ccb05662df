package etcdstore

import (
	"context"
	"reflect"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// Declare implements service.Store. A declaration that is repeated changes
// nothing, not even its entity tag: after a lost reply it may be sent again.
func (s *Store) Declare(ctx context.Context, req service.DeclareRequest) (service.Mutex, bool, error) {
	name, rec := req.Mutex, newDeclared(req.Settings)
	for ctx.Err() == nil {
		if _, err := s.refresh(name, ""); err != nil {
			return service.Mutex{}, false, err
		}
		v := s.view.look(name, "", false)
		same := v.declared != nil && reflect.DeepEqual(*v.declared, rec)
		if err := allowed(name, req.If, &v); err != nil {
			return service.Mutex{}, false, err
		}
		if same {
			m, _, err := s.readMutex(name)
			return m, false, err
		}
		t := &txn{}
		t.unchanged(s.keys.declared(name), v.declaredRev)
		t.put(s.keys.declared(name), rec, 0)
		done, err := s.change(name, t)
		if err != nil {
			return service.Mutex{}, false, err
		}
		if done {
			m, _, err := s.readMutex(name)
			return m, v.declared == nil, err
		}
	}
	return service.Mutex{}, false, ended(ctx)
}

// change commits a change of what is declared; false: decide again. It is sent
// once: "declared already" must not be the answer to who declared it.
func (s *Store) change(name service.Name, t *txn) (bool, error) {
	resp, err := s.once(t)
	if err != nil {
		return false, unwritten(name, err)
	}
	return resp.Succeeded, nil
}

// allowed checks a precondition.
func allowed(name service.Name, p service.Precondition, v *sight) error {
	switch {
	case p.Absent && v.declared != nil:
		return &service.Error{Kind: service.KindPreconditionFailed, Mutex: name, Detail: "it is declared already"}
	case p.Match != 0 && int64(p.Match) != v.declaredRev:
		return &service.Error{Kind: service.KindPreconditionFailed, Mutex: name, Detail: "it was changed meanwhile"}
	}
	return nil
}

// Remove implements service.Store.
func (s *Store) Remove(ctx context.Context, req service.RemoveRequest) error {
	name := req.Mutex
	for ctx.Err() == nil {
		if _, err := s.refresh(name, ""); err != nil {
			return err
		}
		v := s.view.look(name, "", false)
		if err := allowed(name, req.If, &v); err != nil {
			return err
		}
		switch {
		case v.declared == nil:
			return &service.Error{Kind: service.KindMutexNotDeclared, Mutex: name}
		case v.owner != nil && !req.Force:
			o := s.ownership(v.owner)
			return &service.Error{Kind: service.KindMutexHeld, Mutex: name, Holder: &o}
		case v.owner != nil:
			out, err := s.end(name, v.owner, ending{how: service.EndedBroken, reason: "removed", removal: true})
			if err != nil {
				return unwritten(name, err)
			}
			if out.done {
				s.log.Warn("held mutex removed", "audit", true, "mutex", name, "contender_id", v.owner.rec.Contender, "fencing_token", v.owner.fence)
				return s.forgotten(name)
			}
			continue
		}
		t := &txn{ops: []clientv3.Op{clientv3.OpDelete(s.keys.declared(name)), clientv3.OpDelete(s.keys.history(name))}}
		t.unchanged(s.keys.declared(name), v.declaredRev)
		t.absent(s.keys.owner(name))
		done, err := s.change(name, t)
		if err != nil {
			return err
		}
		if done {
			return s.forgotten(name)
		}
	}
	return ended(ctx)
}

// forgotten has the view know of a removal before its caller is told.
func (s *Store) forgotten(name service.Name) error {
	_, err := s.refresh(name, "")
	return err
}
