package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-lock/holdfast/internal/httpapi/apigen"
	"github.com/holdfast-lock/holdfast/internal/service"
)

// heartbeat is how often a stream without events says that it is alive: a
// client that is gone shows at a write, and the idle time-outs of proxies are
// 30 s and more.
const heartbeat = 15 * time.Second

// StreamEvents implements GET /v1/mutexes/{mutex}/events.
func (s *server) StreamEvents(ctx context.Context, req apigen.StreamEventsRequestObject) (apigen.StreamEventsResponseObject, error) {
	ctx = plain(ctx)
	name, err := service.ParseName("mutex", req.Mutex)
	if err != nil {
		return nil, err
	}
	after, err := parseEventID(req.Params.LastEventID)
	if err != nil {
		return nil, err
	}
	// These are read first, since a stream that has begun cannot refuse.
	if err := s.svc.Ready(ctx); err != nil {
		return nil, err
	}
	m, err := s.svc.Mutex(ctx, service.ReadRequest{Mutex: name})
	if err != nil {
		return nil, err
	}
	stream := &eventStream{ctx: ctx, svc: s.svc, mutex: name, after: after}
	if after == nil {
		stream.beginWith(m)
	}
	return stream, nil
}

// eventStream is the answer: events as they come, until one side ends it.
type eventStream struct {
	ctx   context.Context // of the request
	svc   *service.Service
	mutex service.Name
	after *service.EventID
	known *service.Revision // of the state that the stream begins with; nil when it resumes
}

// beginWith makes the stream go on after a state that was read. To begin with
// whatever comes would miss what happens between the first line of the answer,
// which the client has seen, and the store's listening.
func (s *eventStream) beginWith(m service.Mutex) {
	s.known = &m.Revision
	s.after = &service.EventID{Revision: m.Revision, Index: math.MaxInt}
}

// VisitStreamEventsResponse writes the answer.
func (s *eventStream) VisitStreamEventsResponse(w http.ResponseWriter) error {
	ctx, cancel := context.WithCancel(s.ctx)
	events := s.listen(ctx)
	defer func() { // ends the goroutine, and waits for it
		cancel()
		for range events {
		}
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	if err := push(w, []byte(": events\n\n")); err != nil {
		return err
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		text, err := next(ctx, events, beat.C)
		if err != nil || text == nil {
			return err
		}
		if err := push(w, text); err != nil {
			return err
		}
	}
}

// listen returns what happens as a channel, which is closed at the end.
func (s *eventStream) listen(ctx context.Context) <-chan service.Event {
	events := make(chan service.Event)
	go func() {
		defer close(events)
		for ev, err := range s.svc.Events(ctx, s.mutex, s.after) {
			if err != nil {
				return // the client resumes, and is told then
			}
			if s.saysNothing(ev) {
				continue
			}
			select {
			case events <- ev:
			case <-ctx.Done():
				return
			}
		}
	}()
	return events
}

// saysNothing reports whether ev stands for a gap in which nothing happened:
// the state that the stream began with can be older than what the store
// remembers.
func (s *eventStream) saysNothing(ev service.Event) bool {
	known := s.known
	s.known = nil // only the first event can fill that gap
	return known != nil && ev.Type == service.EventReset && ev.State != nil && ev.State.Revision == *known
}

// next returns an event, or a line that says that there was none; nil at the
// end.
func next(ctx context.Context, events <-chan service.Event, beat <-chan time.Time) ([]byte, error) {
	select {
	case ev, more := <-events:
		if !more {
			return nil, nil
		}
		return frame(ev)
	case <-beat:
		return []byte(":\n\n"), nil
	case <-ctx.Done():
		return nil, nil
	}
}

// push writes and sends.
func push(w http.ResponseWriter, text []byte) error {
	if _, err := w.Write(text); err != nil {
		return lost(err)
	}
	return flush(w)
}

// frame is an event as text/event-stream.
func frame(ev service.Event) ([]byte, error) {
	data, err := json.Marshal(eventOnWire(ev, time.Now()))
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if ev.ID != nil {
		fmt.Fprintf(&b, "id: %d.%d\n", ev.ID.Revision, ev.ID.Index)
	}
	fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", ev.Type, data)
	return b.Bytes(), nil
}

// parseEventID takes a Last-Event-ID.
func parseEventID(id *string) (*service.EventID, error) {
	if id == nil {
		return nil, nil
	}
	first, second, _ := strings.Cut(*id, ".")
	revision, err := strconv.ParseInt(first, 10, 64)
	if err == nil {
		var index int
		if index, err = strconv.Atoi(second); err == nil {
			return &service.EventID{Revision: service.Revision(revision), Index: index}, nil
		}
	}
	return nil, service.Invalid("Last-Event-ID", "must be the id of an event, as revision.index")
}
