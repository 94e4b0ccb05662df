package httpapi

import (
	"context"
	"encoding/base64"
	"strings"
	"time"

	"github.com/holdfast-lock/holdfast/internal/httpapi/apigen"
	"github.com/holdfast-lock/holdfast/internal/service"
)

// ListWaiters implements GET /v1/mutexes/{mutex}/waiters.
func (s *server) ListWaiters(ctx context.Context, req apigen.ListWaitersRequestObject) (apigen.ListWaitersResponseObject, error) {
	ctx = plain(ctx)
	name, err := service.ParseName("mutex", req.Mutex)
	if err != nil {
		return nil, err
	}
	line, err := s.svc.Waiters(ctx, name)
	if err != nil {
		return nil, err
	}
	return apigen.ListWaiters200JSONResponse{Waiters: each(line, waiterOf)}, nil
}

// ListHistory implements GET /v1/mutexes/{mutex}/history.
func (s *server) ListHistory(ctx context.Context, req apigen.ListHistoryRequestObject) (apigen.ListHistoryResponseObject, error) {
	ctx = plain(ctx)
	name, err := service.ParseName("mutex", req.Mutex)
	if err != nil {
		return nil, err
	}
	past, err := s.svc.History(ctx, name)
	if err != nil {
		return nil, err
	}
	return apigen.ListHistory200JSONResponse{History: each(past, pastOf)}, nil
}

// each returns a slice that is never nil: a list without items is [].
func each[A, B any](items []A, f func(A) B) []B {
	out := make([]B, len(items))
	for i, item := range items {
		out[i] = f(item)
	}
	return out
}

// defaultPage is the page_size that the contract names.
const defaultPage = 100

// ListMutexes implements GET /v1/mutexes.
func (s *server) ListMutexes(ctx context.Context, req apigen.ListMutexesRequestObject) (apigen.ListMutexesResponseObject, error) {
	ctx = plain(ctx)
	list, err := listRequest(req.Params)
	if err != nil {
		return nil, err
	}
	page, err := s.svc.List(ctx, list)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return apigen.ListMutexes200JSONResponse{
		Mutexes:       each(page.Mutexes, func(m service.Mutex) apigen.Mutex { return mutexOf(m, now) }),
		NextPageToken: optional(pageToken(page.Next)),
	}, nil
}

func listRequest(p apigen.ListMutexesParams) (service.ListRequest, error) {
	list := service.ListRequest{
		Prefix: value(p.Prefix),
		State:  service.State(value(p.State)),
		Limit:  defaultPage,
	}
	if p.PageSize != nil {
		list.Limit = *p.PageSize
	}
	var err error
	if p.Owner != nil {
		if list.Owner, err = service.ParseContenderID(*p.Owner); err != nil {
			return list, service.Invalid("owner", "must have 1 to 200 printable characters")
		}
	}
	if p.PageToken != nil {
		if list.After, err = parsePageToken(*p.PageToken); err != nil {
			return list, err
		}
	}
	list.Labels, err = labelFilter(p.Label)
	return list, err
}

// labelFilter takes key=value pairs; the contract has seen that each has both.
func labelFilter(pairs []string) (map[string]string, error) {
	labels := make(map[string]string, len(pairs))
	for _, pair := range pairs {
		key, want, _ := strings.Cut(pair, "=")
		if other, twice := labels[key]; twice && other != want {
			return nil, service.Invalid("label", "no mutex has two values of one label")
		}
		labels[key] = want
	}
	return labels, nil
}

// pageToken hides the name at which a page ends: nobody should make one up.
func pageToken(last service.Name) string {
	return base64.RawURLEncoding.EncodeToString([]byte(last))
}

func parsePageToken(token string) (service.Name, error) {
	text, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return "", service.Invalid("page_token", "must be one that a page ended with")
	}
	name, err := service.ParseName("page_token", string(text))
	if err != nil {
		return "", service.Invalid("page_token", "must be one that a page ended with")
	}
	return name, nil
}
