// Package lock makes the calls that are measured: Holdfast's, and those of its
// peers.
package lock

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// HTTP makes calls over connections that are kept, one for each that is on its
// way. It costs little, for it shares the machine with what it measures.
type HTTP struct{ client fasthttp.HostClient }

// NewHTTP returns a client of one server.
func NewHTTP(addr string) *HTTP {
	return &HTTP{client: fasthttp.HostClient{
		Addr: addr, MaxConns: 20_000, MaxIdleConnDuration: time.Hour, MaxIdemponentCallAttempts: 1,
		NoDefaultUserAgentHeader: true, DisablePathNormalizing: true,
	}}
}

// Post makes a call, and returns the status; body is given to answer, if that
// is not nil, and is gone after that.
func (c *HTTP) Post(path string, body []byte, answer func(body []byte) error) (int, error) {
	return c.call(fasthttp.MethodPost, path, body, answer)
}

// Get is Post without a body.
func (c *HTTP) Get(path string, answer func(body []byte) error) error {
	_, err := c.call(fasthttp.MethodGet, path, nil, answer)
	return err
}

func (c *HTTP) call(method, path string, body []byte, answer func(body []byte) error) (int, error) {
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	req.Header.SetMethod(method)
	req.Header.SetContentType("application/json")
	req.SetHost(c.client.Addr)
	req.URI().SetPath(path)
	req.SetBodyRaw(body)
	if err := c.client.Do(req, resp); err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	if resp.StatusCode() == fasthttp.StatusOK && answer != nil {
		return resp.StatusCode(), answer(resp.Body())
	}
	if resp.StatusCode() != fasthttp.StatusOK {
		return resp.StatusCode(), &Refused{path, resp.StatusCode(), string(resp.Body())}
	}
	return resp.StatusCode(), nil
}

// Refused is an answer other than 200.
type Refused struct {
	path   string
	Status int
	Body   string
}

func (e *Refused) Error() string { return fmt.Sprintf("%s: %d %s", e.path, e.Status, e.Body) }

// Holdfast makes calls of Holdfast's API.
type Holdfast struct{ *HTTP }

// tokens are never used twice.
var tokens atomic.Int64

// NewToken returns a token that nobody has.
func NewToken() string { return fmt.Sprintf("bench-token-%016d", tokens.Add(1)) }

// Acquire owns mutex, after at most wait. Ttl and transition 0 are the
// server's.
func (c Holdfast) Acquire(mutex, token string, wait, ttl, transition time.Duration) error {
	body := fmt.Appendf(nil, `{"token":"%s","wait_ms":%d`, token, wait.Milliseconds())
	if ttl > 0 {
		body = fmt.Appendf(body, `,"ttl_ms":%d,"transition_ms":%d`, ttl.Milliseconds(), transition.Milliseconds())
	}
	_, err := c.Post("/v1/mutexes/"+mutex+"/acquire", append(body, '}'), nil)
	return err
}

// Release gives back.
func (c Holdfast) Release(mutex, token string) error {
	_, err := c.Post("/v1/mutexes/"+mutex+"/release", fmt.Appendf(nil, `{"token":"%s"}`, token), nil)
	return err
}

// AcquireAs owns as a contender of a name, for ttl.
func (c Holdfast) AcquireAs(mutex, contender, token string, ttl time.Duration) error {
	body := fmt.Appendf(nil, `{"contender_id":"%s","token":"%s","ttl_ms":%d,"transition_ms":0}`, contender, token, ttl.Milliseconds())
	_, err := c.Post("/v1/mutexes/"+mutex+"/acquire", body, nil)
	return err
}

// ReleaseAs gives back as a contender of a name.
func (c Holdfast) ReleaseAs(mutex, contender, token string) error {
	_, err := c.Post("/v1/mutexes/"+mutex+"/release", fmt.Appendf(nil, `{"contender_id":"%s","token":"%s"}`, contender, token), nil)
	return err
}

// Waiters returns the contenders who are present in line, in order.
func (c Holdfast) Waiters(mutex string) (contenders []string, err error) {
	var got struct {
		Waiters []struct {
			Contender string `json:"contender_id"`
			Present   bool
		}
	}
	_, err = c.call(fasthttp.MethodGet, "/v1/mutexes/"+mutex+"/waiters", nil, func(answer []byte) error {
		return json.Unmarshal(answer, &got)
	})
	for _, w := range got.Waiters {
		if w.Present {
			contenders = append(contenders, w.Contender)
		}
	}
	return contenders, err
}

// Guard renews.
func (c Holdfast) Guard(mutex, token string) error {
	_, err := c.Post("/v1/mutexes/"+mutex+"/guard", fmt.Appendf(nil, `{"token":"%s"}`, token), nil)
	return err
}

// Owned is a mutex and the token that owns it.
type Owned struct{ Mutex, Token string }

// Guards makes the body of a batch.
func Guards(owned []Owned) []byte {
	body := []byte(`{"ownerships":[`)
	for i, o := range owned {
		if i > 0 {
			body = append(body, ',')
		}
		body = fmt.Appendf(body, `{"mutex":"%s","token":"%s"}`, o.Mutex, o.Token)
	}
	return append(body, `]}`...)
}

// GuardMany renews n at once, and fails unless each was.
func (c Holdfast) GuardMany(body []byte, n int) error {
	_, err := c.Post("/v1/guard", body, func(answer []byte) error {
		var got struct {
			Results []struct{ Status string }
		}
		if err := json.Unmarshal(answer, &got); err != nil {
			return err
		}
		for _, r := range got.Results {
			if r.Status != "guarded" {
				return fmt.Errorf("guard: %s", r.Status)
			}
			n--
		}
		if n != 0 {
			return fmt.Errorf("guard: %d not answered", n)
		}
		return nil
	})
	return err
}

// Gateway makes calls of etcd's own lock service, through its HTTP gateway.
type Gateway struct{ *HTTP }

// Grant returns a lease of a minute.
func (c Gateway) Grant() (lease string, err error) {
	_, err = c.Post("/v3/lease/grant", []byte(`{"TTL":"60"}`), func(answer []byte) error {
		var got struct{ ID string }
		defer func() { lease = got.ID }()
		return json.Unmarshal(answer, &got)
	})
	return lease, err
}

// Revoke ends a lease.
func (c Gateway) Revoke(lease string) error {
	_, err := c.Post("/v3/lease/revoke", fmt.Appendf(nil, `{"ID":"%s"}`, lease), nil)
	return err
}

// Lock waits for the lock, and returns the key to unlock it with.
func (c Gateway) Lock(name, lease string) (key string, err error) {
	body := fmt.Appendf(nil, `{"name":"%s","lease":"%s"}`, base64.StdEncoding.EncodeToString([]byte(name)), lease)
	_, err = c.Post("/v3/lock/lock", body, func(answer []byte) error {
		var got struct{ Key string }
		defer func() { key = got.Key }()
		return json.Unmarshal(answer, &got)
	})
	return key, err
}

// Unlock gives the lock back.
func (c Gateway) Unlock(key string) error {
	_, err := c.Post("/v3/lock/unlock", fmt.Appendf(nil, `{"key":"%s"}`, key), nil)
	return err
}
