package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
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
	// Listened to before the reads below: who has seen the first line of the
	// answer sees everything that happens after it.
	feed := s.listen(ctx, name, after)
	if err := s.streamable(ctx, name); err != nil {
		feed.stop()
		return nil, err
	}
	return &eventStream{feed: feed}, nil
}

// streamable returns what a stream could no longer say once it has begun.
func (s *server) streamable(ctx context.Context, name service.Name) error {
	if err := s.svc.Ready(ctx); err != nil {
		return err
	}
	_, err := s.svc.Mutex(ctx, service.ReadRequest{Mutex: name})
	return err
}

// feed is what happens to a mutex, as a channel.
type feed struct {
	ctx    context.Context
	cancel context.CancelFunc
	events chan service.Event // closed at the end
}

// listen starts a goroutine, which stop ends and waits for.
func (s *server) listen(ctx context.Context, name service.Name, after *service.EventID) *feed {
	f := &feed{events: make(chan service.Event)}
	f.ctx, f.cancel = context.WithCancel(ctx)
	go func() {
		defer close(f.events)
		for ev, err := range s.svc.Events(f.ctx, name, after) {
			if err != nil {
				return // the client resumes, and is told then
			}
			select {
			case f.events <- ev:
			case <-f.ctx.Done():
				return
			}
		}
	}()
	return f
}

func (f *feed) stop() {
	f.cancel()
	for range f.events {
	}
}

// eventStream is the answer: events as they come, until one side ends it.
type eventStream struct {
	feed *feed
}

// VisitStreamEventsResponse writes the answer.
func (s *eventStream) VisitStreamEventsResponse(w http.ResponseWriter) error {
	defer s.feed.stop()
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	if err := push(w, []byte(": events\n\n")); err != nil {
		return err
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		text, err := s.next(beat.C)
		if err != nil || text == nil {
			return err
		}
		if err := push(w, text); err != nil {
			return err
		}
	}
}

// next returns an event, or a line that says that there was none; nil at the
// end.
func (s *eventStream) next(beat <-chan time.Time) ([]byte, error) {
	select {
	case ev, more := <-s.feed.events:
		if !more {
			return nil, nil
		}
		return frame(ev)
	case <-beat:
		return []byte(":\n\n"), nil
	case <-s.feed.ctx.Done():
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
