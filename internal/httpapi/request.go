package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/holdfast-lock/holdfast/internal/httpapi/apigen"
	"github.com/holdfast-lock/holdfast/internal/service"
)

// requestKey is where a request's event hangs in its gin.Context.
const requestKey = "holdfast.request"

// requestEvent is the one log event of a request, filled along the way. No
// token and no body gets into it.
type requestEvent struct {
	code  apigen.ProblemCode // "" = not refused
	err   error
	attrs []slog.Attr
}

// eventOf returns the event of the request that a handler's ctx belongs to.
func eventOf(ctx context.Context) *requestEvent {
	if ev, ok := ctx.Value(requestKey).(*requestEvent); ok {
		return ev
	}
	return &requestEvent{}
}

// plain returns the context of the request. The one that a handler is given is
// the gin.Context, which does not end with the request, and becomes the next
// one's.
func plain(ctx context.Context) context.Context {
	if c, ok := ctx.(*gin.Context); ok {
		return c.Request.Context()
	}
	return ctx
}

// logRequests logs each request when it is over.
func logRequests(log *slog.Logger) gin.HandlerFunc {
	return func(c *gin.Context) {
		start := time.Now()
		ev := &requestEvent{}
		c.Set(requestKey, ev)
		c.Header("Cache-Control", "no-store")
		defer func() {
			if ctx, level := c.Request.Context(), ev.level(c); log.Enabled(ctx, level) {
				log.LogAttrs(ctx, level, "request", ev.describe(c, time.Since(start))...)
			}
		}()
		c.Next()
	}
}

func (ev *requestEvent) describe(c *gin.Context, took time.Duration) []slog.Attr {
	attrs := append(make([]slog.Attr, 0, 10),
		slog.String("method", c.Request.Method),
		slog.String("route", c.FullPath()),
		slog.Int("status", c.Writer.Status()),
		slog.Float64("duration_ms", float64(took.Microseconds())/1000),
		slog.String("remote", c.Request.RemoteAddr))
	if name, err := service.ParseName("mutex", c.Param("mutex")); err == nil {
		attrs = append(attrs, slog.String("mutex", string(name)))
	}
	if ev.code != "" {
		attrs = append(attrs, slog.String("code", string(ev.code)))
	}
	if ev.err != nil {
		attrs = append(attrs, slog.Any("error", ev.err))
	}
	return append(attrs, ev.attrs...)
}

// level keeps probes that succeed out of the way.
func (ev *requestEvent) level(c *gin.Context) slog.Level {
	switch status := c.Writer.Status(); {
	case status == http.StatusInternalServerError:
		return slog.LevelError
	case status > http.StatusInternalServerError:
		return slog.LevelWarn
	case status == http.StatusOK && (c.FullPath() == "/healthz" || c.FullPath() == "/readyz"):
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// recoverPanics answers a panic with an opaque 500; the stack is for the log.
// An answer that was begun is cut off, so that nobody takes it for whole.
func recoverPanics(c *gin.Context) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			panic(p)
		}
		refuse(c, &panicked{value: p})
		ev := eventOf(c)
		ev.attrs = append(ev.attrs, slog.String("stack", string(debug.Stack())))
		if ev.code == "" {
			panic(http.ErrAbortHandler)
		}
	}()
	c.Next()
}

// unescapeParams gives the handlers what the path's segments stand for.
func unescapeParams(c *gin.Context) {
	for i, p := range c.Params {
		value, err := url.PathUnescape(p.Value)
		if err != nil {
			refuse(c, service.Invalid(p.Key, "is not escaped as a path must be"))
			return
		}
		c.Params[i].Value = value
	}
}
