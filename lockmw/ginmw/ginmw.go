package ginmw

import (
	"context"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/renewer"
)

// Middleware is [httpmw.Middleware] for gin. The operation is by default the
// method and gin's route, "POST /accounts/:id/transfer".
func Middleware[N lockmw.Name](
	k *renewer.Keeper, key func(*gin.Context) N, opts ...httpmw.Option,
) gin.HandlerFunc {
	if key == nil {
		panic("lockbeat: ginmw.Middleware needs a key function, such as one that returns " +
			`lockmw.Key("account", c.Param("id"))`)
	}
	return FromHTTP(httpmw.Middleware(k, func(r *http.Request) N {
		return key(callOf(r).gin)
	}, opts...))
}

// FromHTTP makes middleware of gin of one of net/http, such as
// idempotent.Middleware's, or httpmw.Middleware's with httpmw.PathInt, to which
// "7" and "07" are one account. The handlers behind it get the request and the
// writer that the middleware hands on; if it answers itself, they do not run.
// To the middleware r.Pattern is gin's route, and r.PathValue has its
// parameters. Call it once for each route or group, when the program starts. A
// panic passes through.
func FromHTTP(middleware func(http.Handler) http.Handler) gin.HandlerFunc {
	wrapped := middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		callOf(r).goOn(w, r)
	}))
	return func(c *gin.Context) {
		call := &call{gin: c, request: c.Request, writer: c.Writer}
		call.serve(wrapped)
	}
}

// call is a request on its way through the middleware.
type call struct {
	gin *gin.Context
	// What the middleware got, for middleware further out.
	request *http.Request
	writer  gin.ResponseWriter

	begun, done bool // the handlers behind the middleware
}

type callKey struct{}

func callOf(r *http.Request) *call {
	return r.Context().Value(callKey{}).(*call) //nolint:forcetypeassert // serve has set it
}

// serve has the middleware answer the request.
func (c *call) serve(wrapped http.Handler) {
	r := c.request.WithContext(context.WithValue(c.request.Context(), callKey{}, c))
	if route := c.gin.FullPath(); route != "" {
		r.Pattern = r.Method + " " + route
	}
	for _, p := range c.gin.Params {
		r.SetPathValue(p.Key, p.Value)
	}
	c.gin.Request = r // for key functions
	returned := false
	defer func() {
		if c.gin.Request.MultipartForm != nil { // net/http removes its files
			c.request.MultipartForm = c.gin.Request.MultipartForm
		}
		c.gin.Request, c.gin.Writer = c.request, c.writer
		if !c.begun {
			c.gin.Abort() // else gin runs the handlers of a request that was refused
		}
		if !returned && c.begun == c.done {
			c.cutOff()
		}
	}()
	wrapped.ServeHTTP(c.writer, r)
	returned = true
}

// goOn runs the handlers behind the middleware.
func (c *call) goOn(w http.ResponseWriter, r *http.Request) {
	own := &writer{
		ResponseWriter: c.writer, under: w, status: c.writer.Status(), size: c.writer.Size(),
	}
	c.begun, c.gin.Request, c.gin.Writer = true, r, own
	c.gin.Next()
	if !own.Written() && own.status != c.writer.Status() {
		w.WriteHeader(own.status) // gin sends it in the end, unless middleware further out answers
	}
	c.done = true
}

// cutOff breaks the answer off for the middleware, which has panicked with
// http.ErrAbortHandler: gin.Recovery takes that for a client that has gone, and
// lets net/http send the answer as whole.
func (c *call) cutOff() {
	if !c.writer.Written() {
		c.writer.WriteHeader(http.StatusServiceUnavailable) // else it would be 200
		return
	}
	// With HTTP/1 the connection ends then, with HTTP/2 the stream. A writer of
	// other middleware that has no Unwrap can't do it.
	_ = http.NewResponseController(c.writer).SetWriteDeadline(time.Unix(1, 0))
}
