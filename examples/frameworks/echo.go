package main

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"
)

// echoGuard makes middleware of echo of one of net/http, such as what
// httpmw.Middleware returns. It is for one route. echo.WrapMiddleware would not
// do: see docs/http.md.
func echoGuard(guard func(http.Handler) http.Handler) echo.MiddlewareFunc {
	type contextKey struct{}
	type call struct {
		echo.Context
		next echo.HandlerFunc
	}
	// Made once, so that the guard counts all requests.
	locked := guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		//nolint:forcetypeassert // it is set below
		c := r.Context().Value(contextKey{}).(*call)
		c.SetRequest(r)
		c.SetResponse(echo.NewResponse(w, c.Echo()))
		// An error is answered here, under the lock. A handler whose context
		// has ended leaves the answer to the guard.
		if err := c.next(c.Context); err != nil && r.Context().Err() == nil {
			c.Error(err)
		}
	}))
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			r, w := c.Request(), c.Response()
			for _, name := range c.ParamNames() { // r.PathValue does not know them
				r.SetPathValue(name, c.Param(name))
			}
			locked.ServeHTTP(w, r.WithContext(
				context.WithValue(r.Context(), contextKey{}, &call{c, next})))
			c.SetRequest(r) // without the lock, for middleware further out
			c.SetResponse(w)
			return nil
		}
	}
}
