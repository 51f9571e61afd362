package main

import (
	"context"
	"errors"
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/labstack/echo/v4"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/ginmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/renewer"
)

// errBroke is an error of the work, for which each framework has its own
// answer.
var errBroke = errors.New("not enough money")

// accountLock is the one recipe for the name of an account's lock.
func accountLock(r *http.Request) string { return lockmw.Key("account", r.PathValue("id")) }

// withGin is a server of gin. The lock is on the route, as it would be with
// net/http.
func withGin(k *renewer.Keeper, transfer work, opts ...httpmw.Option) http.Handler {
	router := gin.New()
	lock := ginmw.FromHTTP(httpmw.Middleware(k, accountLock, opts...))
	router.POST("/accounts/:id/transfer", lock, func(c *gin.Context) {
		if err := transfer(c.Request.Context(), c.Param("id")); err != nil {
			if c.Request.Context().Err() == nil { // else the guard answers
				c.JSON(http.StatusUnprocessableEntity, gin.H{"message": err.Error()})
			}
			return
		}
		c.String(http.StatusOK, "from "+c.Param("id"))
	})
	return router
}

// withEcho is a server of echo.
func withEcho(k *renewer.Keeper, transfer work, opts ...httpmw.Option) http.Handler {
	router := echo.New()
	opts = append(opts, lockmw.Operation("transfer"))
	lock := echoGuard(httpmw.Middleware(k, accountLock, opts...))
	router.POST("/accounts/:id/transfer", func(c echo.Context) error {
		err := transfer(c.Request().Context(), c.Param("id"))
		if errors.Is(err, errBroke) {
			return echo.NewHTTPError(http.StatusUnprocessableEntity, err.Error())
		}
		if err != nil {
			return err
		}
		return c.String(http.StatusOK, "from "+c.Param("id"))
	}, lock)
	return router
}

// work is what is done under the lock. It knows nothing of it.
type work func(ctx context.Context, account string) error
