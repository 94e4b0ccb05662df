package httpapi

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/holdfast-lock/holdfast/internal/httpapi/apigen"
	"github.com/holdfast-lock/holdfast/internal/service"
)

// Config is what the API needs.
type Config struct {
	Service *service.Service
	Log     *slog.Logger // takes one event for each request
}

// API is the HTTP face of a Service.
type API struct {
	handler http.Handler
}

// server implements the operations of the contract.
type server struct {
	svc      *service.Service
	contract []byte // as JSON
}

var _ apigen.StrictServerInterface = (*server)(nil)

// gin keeps its mode in a global. Its debug mode prints routes and warnings to
// the standard output.
func init() { gin.SetMode(gin.ReleaseMode) }

// New returns an API. It starts nothing.
func New(cfg Config) (*API, error) {
	if cfg.Service == nil || cfg.Log == nil {
		return nil, errors.New("httpapi: a service and a logger are needed")
	}
	contract, err := apigen.GetSpecJSON()
	if err != nil {
		return nil, fmt.Errorf("httpapi: contract: %w", err)
	}
	check, err := newValidator()
	if err != nil {
		return nil, err
	}
	engine := newEngine()
	engine.Use(logRequests(cfg.Log), boundWrites, recoverPanics, unescapeParams, check.validate)
	engine.NoRoute(refuseUnrouted)
	engine.NoMethod(func(c *gin.Context) { refuse(c, methodNotAllowed) })
	register(engine, &server{svc: cfg.Service, contract: contract})
	return &API{handler: headAsGet(engine)}, nil
}

// Handler serves the API. For clients that left to be noticed in time, the
// http.Server needs ConnContext, and must have no WriteTimeout: a wait may take
// as long as the longest poll.
func (a *API) Handler() http.Handler { return a.handler }

func newEngine() *gin.Engine {
	engine := gin.New()
	engine.HandleMethodNotAllowed = true
	// A name arrives as one segment, whatever is escaped in it: else a%2Fguard
	// is the guard of a.
	engine.UseEscapedPath = true
	engine.UnescapePathValues = false
	engine.RedirectTrailingSlash = false
	return engine
}

// register adds the routes, with the one writer of errors at each place where
// the generated code has its own.
func register(engine *gin.Engine, s *server) {
	malformed := func(c *gin.Context, err error) { refuse(c, malformedRequest(err)) }
	handler := apigen.NewStrictHandlerWithOptions(s, nil, apigen.StrictGinServerOptions{
		RequestErrorHandlerFunc:  malformed,
		HandlerErrorFunc:         refuse,
		ResponseErrorHandlerFunc: refuse,
	})
	apigen.RegisterHandlersWithOptions(engine, handler, apigen.GinServerOptions{
		ErrorHandler: func(c *gin.Context, err error, _ int) { malformed(c, err) },
	})
}

// refuseUnrouted answers for paths that are not of the contract. gin takes an
// empty last segment for one.
func refuseUnrouted(c *gin.Context) {
	if c.Request.URL.EscapedPath() == "/v1/mutexes/" {
		_, err := service.ParseName("mutex", "")
		refuse(c, err)
		return
	}
	refuse(c, notFound)
}

// headAsGet serves HEAD as GET: net/http keeps the body back, for it goes by
// the request that it read. A stream has no end to wait for.
func headAsGet(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead && !strings.HasSuffix(r.URL.Path, "/events") {
			r = r.WithContext(r.Context()) // a copy
			r.Method = http.MethodGet
		}
		next.ServeHTTP(w, r)
	})
}
