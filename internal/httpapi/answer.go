package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"
)

// writeTimeout bounds each write of an answer, not the wait before it: a client
// that takes nothing for so long does not hold a connection for ever.
const writeTimeout = 10 * time.Second

// boundedWriter gives each write a deadline of its own.
type boundedWriter struct {
	gin.ResponseWriter
	ctl *http.ResponseController
}

// boundWrites bounds the writes of every answer.
func boundWrites(c *gin.Context) {
	c.Writer = &boundedWriter{ResponseWriter: c.Writer, ctl: http.NewResponseController(c.Writer)}
}

// Unwrap is for http.ResponseController.
func (w *boundedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *boundedWriter) Write(b []byte) (int, error) {
	if err := w.bound(); err != nil {
		return 0, err
	}
	return w.ResponseWriter.Write(b)
}

func (w *boundedWriter) WriteString(s string) (int, error) {
	if err := w.bound(); err != nil {
		return 0, err
	}
	return w.ResponseWriter.WriteString(s)
}

func (w *boundedWriter) bound() error {
	return lost(w.ctl.SetWriteDeadline(time.Now().Add(writeTimeout)))
}

// flush sends what was written, and takes the deadline away: a stream on HTTP/2
// would be reset when it passes, with nothing to write or not.
func flush(w http.ResponseWriter) error {
	ctl := http.NewResponseController(innermost(w))
	if err := lost(ctl.Flush()); err != nil {
		return err
	}
	return lost(ctl.SetWriteDeadline(time.Time{}))
}

// innermost returns the writer of net/http: gin's own flush drops the error.
func innermost(w http.ResponseWriter) http.ResponseWriter {
	for {
		outer, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return w
		}
		w = outer.Unwrap()
	}
}

// lost marks what a connection that is no more says. A writer that is not of a
// connection, as in tests, has nothing to say.
func lost(err error) error {
	if err == nil || errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return fmt.Errorf("%w: %w", errGone, err)
}

// deliver writes a whole JSON answer and sends it. The length comes first, so
// that the client need not wait for the handler's end.
func deliver(w http.ResponseWriter, status int, body []byte) error {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if _, err := w.Write(body); err != nil {
		return lost(err)
	}
	return flush(w)
}

// errGone says that there is nobody to answer.
var errGone = errors.New("the client is gone")

// present returns errGone when the client can be seen to have left.
func present(ctx context.Context) error {
	if ctx.Err() != nil || peerOf(ctx).gone() {
		return errGone
	}
	return nil
}
