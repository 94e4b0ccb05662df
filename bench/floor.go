package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/holdfast-lock/holdfast/bench/load"
)

// Floor is a process that answers as Holdfast does, on the same libraries, and
// does nothing for it: what of a measure is HTTP's. A POST is answered with as
// many bytes as a grant has, one to /wait is held until its client goes, and
// GET says how many are held.
type Floor struct {
	Listen string
}

// granted is as long as an answer that grants.
const granted = `{"acquired_at":"2026-01-02T03:04:05.678901234Z","age_ms":0,"contender_id":"anonymous-0123456789abcdef",` +
	`"expires_at":"2026-01-02T03:04:21.678901234Z","fencing_token":1234567,"mutex":"own-12","token":"bench-token-0000000000001234",` +
	`"transition_ms":6000,"transition_remaining_ms":16000,"ttl_ms":10000,"ttl_remaining_ms":10000}` + "\n"

// Run is called by kong.
func (f *Floor) Run() error {
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	var held atomic.Int64
	engine.POST("/v1/mutexes/:mutex/:call", func(c *gin.Context) {
		if _, err := io.ReadAll(c.Request.Body); err != nil {
			_ = c.AbortWithError(http.StatusBadRequest, err)
			return
		}
		c.Data(http.StatusOK, "application/json", []byte(granted))
	})
	engine.POST("/wait", func(c *gin.Context) {
		_, _ = io.Copy(io.Discard, c.Request.Body)
		held.Add(1)
		<-c.Request.Context().Done()
		held.Add(-1)
	})
	engine.GET("/held", func(c *gin.Context) { c.String(http.StatusOK, "%d", held.Load()) })
	server := &http.Server{Addr: f.Listen, Handler: engine, ReadHeaderTimeout: time.Minute}
	return server.ListenAndServe()
}

// floorCalls are calls that nothing is done for; so many are timed as one.
func (b *bench) floorCalls(workers int, calls ...string) side {
	return closed(httpOnly, workers, load.Timed(func(worker int) error {
		for _, call := range calls {
			if _, err := b.floor.Post(fmt.Sprintf("/v1/mutexes/own-%d/%s", worker, call), []byte(`{"token":"bench-token-0000000000001234"}`), nil); err != nil {
				return err
			}
		}
		return nil
	}))
}

// floorHeld returns how many bytes a request costs that is held.
func (b *bench) floorHeld(requests int) (each float64, err error) {
	server := b.rig.Floor
	before, err := server.RSS()
	if err != nil {
		return 0, err
	}
	conns := make([]net.Conn, 0, requests)
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	for range requests {
		c, err := net.Dial("tcp", server.Addr)
		if err != nil {
			return 0, err
		}
		conns = append(conns, c)
		if _, err := fmt.Fprintf(c, "POST /wait HTTP/1.1\r\nHost: %s\r\nContent-Length: 2\r\n\r\n{}", server.Addr); err != nil {
			return 0, err
		}
	}
	for begin := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		held := ""
		if err := b.floor.Get("/held", func(body []byte) error { held = string(body); return nil }); err != nil {
			return 0, err
		}
		if held == fmt.Sprint(requests) {
			break
		}
		if time.Since(begin) > time.Minute {
			return 0, fmt.Errorf("%s of %d are held", held, requests)
		}
	}
	after, err := server.RSS()
	return float64(after-before) / float64(requests), err
}
