package etcdstore

import (
	"cmp"

	clientv3 "go.etcd.io/etcd/client/v3"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// ownerSeen is the ownership as the watch alone tells it: the view may know
// more already, from our own transactions, and events go by etcd's order.
type ownerSeen struct {
	contender service.ContenderID
	fence     service.Fence
}

func seenOf(o *owner) ownerSeen {
	if o == nil {
		return ownerSeen{}
	}
	return ownerSeen{contender: o.rec.Contender, fence: o.fence}
}

// happening is what one transaction did to one mutex.
type happening struct {
	ended   []settledRecord // ownerships and waits
	ownerIs *ownerRecord    // written
	ownerNo bool            // deleted
	queued  []service.ContenderID
	left    []leftEntry // entries deleted
	settled map[service.Pair]bool
}

type leftEntry struct {
	pair      service.Pair
	contender service.ContenderID
}

// listening returns where to note what happens to m, nil when nobody reads it:
// most mutexes are not watched, and to read each write twice would cost more
// than all else that the watch does. view.mu is held.
func (m *mutex) listening(heard *map[*mutex]*happening) *happening {
	if len(m.subs) == 0 {
		return nil
	}
	if *heard == nil {
		*heard = map[*mutex]*happening{}
	}
	h := (*heard)[m]
	if h == nil {
		h = &happening{}
		(*heard)[m] = h
	}
	return h
}

// place returns the place of a pair in line, nil when it has none.
func (m *mutex) place(pair service.Pair) *entryRecord {
	if e := m.entries[pair]; e != nil {
		return &e.rec
	}
	return nil
}

// toldOwner keeps m.told for readers to come. The view has read the record,
// unless it knows of a newer one. view.mu is held.
func (m *mutex) toldOwner(ev *clientv3.Event) {
	switch {
	case ev.Type == mvccpb.DELETE:
		m.told = ownerSeen{}
	case m.owner != nil && m.ownerRev == ev.Kv.ModRevision:
		m.told = seenOf(m.owner)
	default:
		rec, err := decode[ownerRecord](ev.Kv.Value)
		if err != nil {
			return // the view has said so
		}
		m.told = ownerSeen{contender: rec.Contender, fence: cmp.Or(rec.Fence, service.Fence(ev.Kv.ModRevision))}
	}
}

// note takes down one write. place is what stood there before, for a deletion
// does not say whose the place was; nil where that is not known.
func (h *happening) note(place *entryRecord, kind keyKind, pair service.Pair, ev *clientv3.Event) error {
	deleted := ev.Type == mvccpb.DELETE
	switch {
	case kind == keySettled && !deleted:
		rec, err := decode[settledRecord](ev.Kv.Value)
		if err != nil {
			return keyError(ev.Kv, err)
		}
		h.ended = append(h.ended, rec)
		if h.settled == nil {
			h.settled = map[service.Pair]bool{}
		}
		h.settled[pair] = true
	case kind == keyOwner && deleted:
		h.ownerNo = true
	case kind == keyOwner:
		rec, err := decode[ownerRecord](ev.Kv.Value)
		if err != nil {
			return keyError(ev.Kv, err)
		}
		h.ownerIs = &rec
	case kind == keyEntry && deleted:
		if place != nil {
			h.left = append(h.left, leftEntry{pair: pair, contender: place.Contender})
		}
	case kind == keyEntry:
		rec, err := decode[entryRecord](ev.Kv.Value)
		if err != nil {
			return keyError(ev.Kv, err)
		}
		if rec.Joined == 0 {
			h.queued = append(h.queued, rec.Contender)
		}
	}
	return nil
}

// events returns what happened, in the order ended, acquired, line; before is
// the ownership until then.
func (h *happening) events(name service.Name, before ownerSeen, rev int64) (list []service.Event, after ownerSeen) {
	after = before
	add := func(t service.EventType, c service.ContenderID, f service.Fence, reason string) {
		id := &service.EventID{Revision: service.Revision(rev), Index: len(list)}
		list = append(list, service.Event{ID: id, Type: t, Mutex: name, Contender: c, Fence: f, Reason: reason})
	}
	told := false
	for _, e := range h.ended {
		told = told || e.Ended != service.EndedLeft
		add(eventOf[e.Ended], e.Contender, e.Fence, e.Reason)
	}
	begins := h.ownerIs != nil && h.ownerIs.Fence == 0
	if (h.ownerNo || begins) && !told && before.fence != 0 {
		// Its safety-net lease ended it, or nobody could be told of it.
		add(service.EventExpired, before.contender, before.fence, "")
	}
	switch {
	case h.ownerNo:
		after = ownerSeen{}
	case begins:
		after = ownerSeen{contender: h.ownerIs.Contender, fence: service.Fence(rev)}
		add(service.EventAcquired, after.contender, after.fence, "")
	case h.ownerIs != nil:
		after = ownerSeen{contender: h.ownerIs.Contender, fence: h.ownerIs.Fence}
		add(service.EventGuarded, after.contender, after.fence, "")
	}
	for _, c := range h.queued {
		add(service.EventQueued, c, 0, "")
	}
	for _, l := range h.left {
		if !h.settled[l.pair] && (h.ownerIs == nil || h.ownerIs.Pair != l.pair) {
			add(service.EventLeft, l.contender, 0, "")
		}
	}
	return list, after
}

var eventOf = map[service.Ending]service.EventType{
	service.EndedReleased: service.EventReleased,
	service.EndedExpired:  service.EventExpired,
	service.EndedBroken:   service.EventBroken,
	service.EndedLeft:     service.EventLeft,
}

// tell hands what happened to whoever reads m's events. view.mu is held.
func (h *happening) tell(m *mutex, rev int64) {
	list, after := h.events(m.name, m.told, rev)
	m.told = after
	for sub := range m.subs {
		sub.push(list)
	}
}

// lose tells m's readers that something may be missing. view.mu is held.
func (v *view) lose(m *mutex) {
	for sub := range m.subs {
		sub.lost()
	}
}
