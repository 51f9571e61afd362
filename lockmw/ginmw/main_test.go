package ginmw_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.ReleaseMode)
	goleak.VerifyTestMain(m)
}

// accountLock is the one recipe for the name of an account's lock.
func accountLock(c *gin.Context) string { return lockmw.Key("account", c.Param("id")) }

// route is a router with these handlers on one route.
func route(handlers ...gin.HandlerFunc) http.Handler {
	router := gin.New()
	router.Use(gin.RecoveryWithWriter(io.Discard))
	router.POST("/accounts/:id/transfer", handlers...)
	return router
}

const path = "/accounts/7/transfer"

// quick has a loss found soon.
func quick(cfg *renewer.Config) { cfg.Heartbeat = 20 * time.Millisecond }
