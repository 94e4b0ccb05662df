package httpapi

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-lock/holdfast/internal/httpapi/apigen"
	"github.com/holdfast-lock/holdfast/internal/service"
	"github.com/holdfast-lock/holdfast/internal/service/servicetest"
	"github.com/holdfast-lock/holdfast/test/contract"
)

// dial sends text on a connection of its own.
func dial(t *testing.T, srv *httptest.Server, text string) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	return conn.(*net.TCPConn)
}

// read returns the answer to a request of that method.
func read(t *testing.T, conn net.Conn, method string) *answer {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return &answer{t: t, status: resp.StatusCode, header: resp.Header, text: string(text)}
}

func request(method, path, body string) string {
	return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: test\r\nContent-Length: %d\r\n\r\n%s", method, path, len(body), body)
}

func (h *house) waiters(t *testing.T, mutex string) int {
	m, err := h.svc.Mutex(t.Context(), service.ReadRequest{Mutex: service.Name(mutex)})
	if err != nil {
		t.Fatal(err)
	}
	return m.Waiters
}

// A client that is cut off while it waits is out of the line at once, and is
// not given the mutex later.
func TestClientCutDuringItsWait(t *testing.T) {
	h := newHouse(t, defaultPolicy)
	srv := h.serve()
	h.post("/v1/mutexes/deploy/acquire", `{"token":"`+tokenA+`"}`).want(http.StatusOK)
	conn := dial(t, srv, request("POST", "/v1/mutexes/deploy/acquire", `{"token":"`+tokenB+`","wait_ms":30000}`))
	eventually(t, "it waits", func() bool { return h.waiters(t, "deploy") == 1 })
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is out of the line", func() bool { return h.waiters(t, "deploy") == 0 })
	h.post("/v1/mutexes/deploy/release", `{"token":"`+tokenA+`"}`).want(http.StatusOK)
	h.post("/v1/mutexes/deploy/acquire", `{"token":"token-of-carol-001"}`).want(http.StatusOK)
}

// The client leaves in the moment in which it is granted.
func TestClientCutAtTheGrant(t *testing.T) {
	for name, leave := range map[string]func(*net.TCPConn) error{
		"closed":      (*net.TCPConn).Close,
		"half closed": (*net.TCPConn).CloseWrite,
		// More than the request ends net/http's own look-out for the end.
		"closed after a stray line": func(conn *net.TCPConn) error {
			if _, err := conn.Write([]byte("\r\n\r\n")); err != nil {
				return err
			}
			return conn.Close()
		},
		"reset": func(conn *net.TCPConn) error {
			_ = conn.SetLinger(0)
			return conn.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			client := make(chan *net.TCPConn, 1)
			var arrived atomic.Pointer[peer]
			store := &granting{before: func() {
				if err := leave(<-client); err != nil {
					t.Error(err)
				}
				eventually(t, "the end has arrived", arrived.Load().gone)
			}}
			h := newHouseOn(t, store, defaultPolicy)
			srv := httptest.NewUnstartedServer(h.handler)
			srv.Config.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
				ctx = ConnContext(ctx, conn)
				p := peerOf(ctx)
				arrived.Store(&p)
				return ctx
			}
			srv.Start()
			t.Cleanup(srv.Close)
			conn := dial(t, srv, request("POST", "/v1/mutexes/deploy/acquire", ""))
			client <- conn
			eventually(t, "the grant is undone", func() bool { return store.lost.Load() == 1 })
			if store.told.Load() != 0 {
				t.Error("the store was told that the client knows")
			}
			if name == "half closed" {
				if a := read(t, conn, "POST"); a.status < 300 {
					t.Errorf("got status %d", a.status)
				}
			}
		})
	}
}

// With ConnContext alone, without the request's context: what the peek sees.
func TestPeer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	pair := func() (net.Conn, peer) {
		client, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		conn, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close(); conn.Close() })
		return client, peerOf(ConnContext(t.Context(), conn))
	}
	idle, p := pair()
	if p.gone() {
		t.Error("an idle client is taken for gone")
	}
	if _, err := idle.Write([]byte("next request")); err != nil {
		t.Fatal(err)
	}
	time.Sleep(10 * time.Millisecond)
	if p.gone() {
		t.Error("a client that sends is taken for gone")
	}
	left, p := pair()
	left.Close()
	eventually(t, "the end is seen", p.gone)
	if (peer{}).gone() || peerOf(t.Context()).gone() {
		t.Error("nothing can be seen of no socket")
	}
}

func TestClientCutDuringItsWaitOverTLS(t *testing.T) {
	h := newHouse(t, defaultPolicy)
	srv := httptest.NewUnstartedServer(h.handler)
	srv.Config.ConnContext = ConnContext
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(srv.Close)
	h.post("/v1/mutexes/deploy/acquire", `{"token":"`+tokenA+`"}`).want(http.StatusOK)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL+"/v1/mutexes/deploy/acquire", strings.NewReader(`{"wait_ms":30000}`))
		resp, err := srv.Client().Do(req)
		if err == nil {
			resp.Body.Close()
		}
		done <- err
	}()
	eventually(t, "it waits", func() bool { return h.waiters(t, "deploy") == 1 })
	cancel()
	if err := <-done; err == nil {
		t.Error("got an answer")
	}
	eventually(t, "it is out of the line", func() bool { return h.waiters(t, "deploy") == 0 })
	h.post("/v1/mutexes/deploy/release", `{"token":"`+tokenA+`"}`).want(http.StatusOK)
	resp, err := srv.Client().Post(srv.URL+"/v1/mutexes/deploy/acquire", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.ProtoMajor != 2 {
		t.Errorf("got %s %s", resp.Proto, resp.Status)
	}
}

// HTTP/2 resets a stream whose write deadline has passed, also an idle one.
func TestEventsOutliveTheWriteDeadline(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a deadline to pass")
	}
	t.Parallel()
	h := newHouse(t, defaultPolicy)
	srv := httptest.NewUnstartedServer(h.handler)
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(srv.Close)
	resp, err := srv.Client().Get(srv.URL + "/v1/mutexes/deploy/events")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	time.AfterFunc(writeTimeout+time.Second, func() {
		_, _ = h.svc.Acquire(context.Background(), service.AcquireCall{Mutex: "deploy"})
	})
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() && lines.Text() != "event: acquired" {
	}
	if lines.Text() != "event: acquired" {
		t.Errorf("got %q, %v", lines.Text(), lines.Err())
	}
}

// A body that does not come holds nothing for ever; a wait after one that came
// may be longer than that.
func TestSlowBody(t *testing.T) {
	check, err := newValidator()
	if err != nil {
		t.Fatal(err)
	}
	check.bodyTimeout = 100 * time.Millisecond
	store := servicetest.NewMemory(defaultPolicy)
	t.Cleanup(store.Close)
	engine := newEngine()
	engine.Use(boundWrites, check.validate)
	register(engine, &server{svc: service.New(store, service.Config{Policy: defaultPolicy, MaxWait: time.Second})})
	srv := httptest.NewServer(engine)
	t.Cleanup(srv.Close)

	slow := dial(t, srv, "POST /v1/mutexes/a/acquire HTTP/1.1\r\nHost: test\r\nContent-Length: 50\r\n\r\n{")
	read(t, slow, "POST").want(http.StatusBadRequest, apigen.ProblemCodeInvalidArgument)
	conn := dial(t, srv, request("POST", "/v1/mutexes/b/acquire", "{}"))
	read(t, conn, "POST").want(http.StatusOK)
	if _, err := io.WriteString(conn, request("POST", "/v1/mutexes/b/acquire", `{"wait_ms":300}`)); err != nil {
		t.Fatal(err)
	}
	read(t, conn, "POST").want(http.StatusLocked)
}

func TestAnswersToStrangeRequests(t *testing.T) {
	h := newHouse(t, defaultPolicy)
	srv := h.serve()
	h.do("PUT", "/v1/mutexes/declared", "").want(http.StatusCreated)
	huge := `{"metadata":{"a":"` + strings.Repeat("x", 2<<20) + `"}}`
	for name, c := range map[string]struct {
		text   string
		close  bool
		status int
		code   apigen.ProblemCode
	}{
		"2 MB":       {request("POST", "/v1/mutexes/a/acquire", huge), false, 413, apigen.ProblemCodeBodyTooLarge},
		"dots":       {request("POST", "/v1/mutexes/../acquire", ""), false, 400, apigen.ProblemCodeInvalidArgument},
		"slash":      {request("POST", "/v1/mutexes/a%2Fguard", ""), false, 405, apigen.ProblemCodeMethodNotAllowed},
		"no name":    {request("POST", "/v1/mutexes//acquire", ""), false, 400, apigen.ProblemCodeInvalidArgument},
		"cut body":   {"POST /v1/mutexes/a/acquire HTTP/1.1\r\nHost: test\r\nContent-Length: 50\r\n\r\n{", true, statusGone, ""},
		"bad chunks": {"POST /v1/mutexes/a/acquire HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", false, 400, apigen.ProblemCodeInvalidArgument},
		"chunks":     {"POST /v1/mutexes/b/acquire HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", false, 200, ""},
		"HEAD":       {request("HEAD", "/v1/mutexes/declared", ""), false, 200, ""},
		"HEAD, none": {request("HEAD", "/nowhere", ""), false, 404, ""},
	} {
		t.Run(name, func(t *testing.T) {
			conn := dial(t, srv, c.text)
			if c.close {
				_ = conn.CloseWrite()
			}
			method, _, _ := strings.Cut(c.text, " ")
			a := read(t, conn, method).want(c.status)
			if c.code != "" {
				a.want(c.status, c.code)
				if err := contract.Document().Components.Schemas["Problem"].Value.VisitJSON(decode[any](a)); err != nil {
					t.Errorf("not a problem: %v", err)
				}
			}
			if method == "HEAD" && (a.text != "" || c.status == 200 && a.header.Get("ETag") == "") {
				t.Errorf("got body %q, header %v", a.text, a.header)
			}
		})
	}
}
