package ginmw

import (
	"bufio"
	"io"
	"net"
	"net/http"

	"github.com/gin-gonic/gin"
)

// writer is gin's writer above that of the middleware, which has to see all
// that handlers write. Like gin's own it keeps the status until something is
// written.
type writer struct {
	gin.ResponseWriter // further out

	under  http.ResponseWriter
	status int
	size   int // of the body; -1: nothing is written
}

func (w *writer) Header() http.Header { return w.under.Header() }

func (w *writer) Status() int { return w.status }

func (w *writer) Size() int { return w.size }

func (w *writer) Written() bool { return w.size >= 0 }

func (w *writer) WriteHeader(status int) {
	if status > 0 && !w.Written() {
		w.status = status
	}
}

func (w *writer) WriteHeaderNow() {
	if !w.Written() {
		w.size = 0
		w.under.WriteHeader(w.status)
		if gins, ok := w.under.(interface{ WriteHeaderNow() }); ok {
			gins.WriteHeaderNow() // it keeps the status, too
		}
	}
}

func (w *writer) Write(data []byte) (int, error) {
	w.WriteHeaderNow()
	n, err := w.under.Write(data)
	w.size += n
	return n, err
}

func (w *writer) WriteString(s string) (int, error) {
	w.WriteHeaderNow()
	n, err := io.WriteString(w.under, s)
	w.size += n
	return n, err
}

func (w *writer) Flush() {
	w.WriteHeaderNow()
	_ = http.NewResponseController(w.under).Flush() // a writer that can't keeps it
}

func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(w.under).Hijack()
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.under }
