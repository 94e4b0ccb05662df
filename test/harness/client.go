package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-lock/holdfast/test/contract"
)

// Client is a small JSON client of one replica. It has no time-out of its own:
// polls are as long as they ask to be.
type Client struct {
	base string
	http *http.Client
}

// Reply is an answer. Body is nil where there was no JSON object.
type Reply struct {
	Status int
	Header http.Header
	Body   map[string]any
	Raw    string
	Took   time.Duration
}

// NewClient returns a client of the service at base, with connections of its
// own.
func NewClient(base string) *Client {
	return &Client{base: base, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
}

// Call makes one request, never again by itself. body is sent as JSON unless
// it is nil. An error means that no whole answer came.
func (c *Client) Call(ctx context.Context, method, path string, body any) (Reply, error) {
	var payload io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return Reply{}, fmt.Errorf("body of %s %s: %w", method, path, err)
		}
		payload = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, payload)
	if err != nil {
		return Reply{}, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	begin := time.Now()
	resp, err := c.http.Do(req)
	if err != nil {
		return Reply{}, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return Reply{}, err
	}
	r := Reply{Status: resp.StatusCode, Header: resp.Header, Raw: string(raw), Took: time.Since(begin)}
	_ = json.Unmarshal(raw, &r.Body) // metrics and pages are not JSON
	if strings.HasPrefix(path, "/v1/") {
		misfits.add(contract.Check(req, contract.Answer{Status: r.Status, Header: r.Header, Body: raw}))
	}
	return r, nil
}

// misfits are the answers of this run that do not fit the contract.
var misfits misfitList

type misfitList struct {
	mu   sync.Mutex
	errs []error // guarded by mu
}

func (l *misfitList) add(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil && len(l.errs) < 10 {
		l.errs = append(l.errs, err)
	}
}

func (l *misfitList) all() []error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.errs
}

// Must is Call within a minute, and fails the test where no answer came.
func (c *Client) Must(t testing.TB, method, path string, body any) Reply {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := c.Call(ctx, method, path, body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return r
}

// Want fails the test when the answer has another status; it returns the
// answer.
func (r Reply) Want(t testing.TB, status int) Reply {
	t.Helper()
	if r.Status != status {
		t.Fatalf("got status %d (%s), want %d", r.Status, r.Raw, status)
	}
	return r
}

// String returns a field of the body, "" where there is no such string.
func (r Reply) String(field string) string {
	s, _ := r.Body[field].(string)
	return s
}

// Int returns a field of the body, 0 where there is no such number.
func (r Reply) Int(field string) int64 {
	n, _ := r.Body[field].(float64)
	return int64(n)
}

// Code returns the code of a problem.
func (r Reply) Code() string { return r.String("code") }
