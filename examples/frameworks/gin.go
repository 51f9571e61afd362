package main

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"
)

// ginGuard makes middleware of gin of one of net/http, such as what httpmw.Exclusive returns. It is
// for one route.
func ginGuard(guard func(http.Handler) http.Handler) gin.HandlerFunc {
	type contextKey struct{}
	// Made once, so that the guard counts all requests.
	locked := guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		//nolint:forcetypeassert // it is set below
		c := r.Context().Value(contextKey{}).(*gin.Context)
		c.Request = r
		c.Writer = &ginWriter{c.Writer, w}
		c.Next()
	}))
	return func(c *gin.Context) {
		r, w := c.Request, c.Writer
		for _, p := range c.Params { // r.PathValue does not know them
			r.SetPathValue(p.Key, p.Value)
		}
		aborted := true // by http.ErrAbortHandler, say, which gin.Recovery answers as it finds it
		defer func() {
			c.Request, c.Writer = r, w // without the lock, for middleware further out
			c.Abort()                  // else gin runs the handler of a request that was refused
			if aborted && !w.Written() {
				w.WriteHeader(http.StatusServiceUnavailable) // else it would be 200
			}
		}()
		locked.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), contextKey{}, c)))
		aborted = false
	}
}

// ginWriter is gin's writer, above the one of the guard. The guard sees what a handler writes: it
// has to for httpmw.AbortLost.
type ginWriter struct {
	gin.ResponseWriter

	guard http.ResponseWriter
}

func (w *ginWriter) Write(data []byte) (int, error) { return w.guard.Write(data) }

func (w *ginWriter) WriteString(s string) (int, error) { return w.guard.Write([]byte(s)) }

func (w *ginWriter) WriteHeaderNow() {
	if !w.Written() {
		w.guard.WriteHeader(w.Status())
		w.ResponseWriter.WriteHeaderNow()
	}
}

func (w *ginWriter) Flush() {
	w.WriteHeaderNow()
	w.ResponseWriter.Flush()
}
