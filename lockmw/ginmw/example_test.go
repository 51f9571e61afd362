package ginmw_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/gin-gonic/gin"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/ginmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

// One transfer at a time is made from an account, on whichever server. The
// handler knows nothing of it.
func ExampleMiddleware() {
	keeper, err := renewer.New(memory.New(), renewer.Config{}) // in production on redisstore
	if err != nil {
		panic(err)
	}
	defer func() { _ = keeper.Shutdown(context.Background()) }()

	router := gin.New()
	lock := ginmw.Middleware(keeper, func(c *gin.Context) string { return lockmw.Key("account", c.Param("id")) })
	router.POST("/accounts/:id/transfer", lock, func(c *gin.Context) {
		c.String(http.StatusOK, "from account %s", c.Param("id"))
	})

	show(router, "/accounts/7/transfer")
	// Output: 200 from account 7
}

// The name that httpmw makes of a number: 7 and 07 are one account.
func ExampleFromHTTP() {
	keeper, err := renewer.New(memory.New(), renewer.Config{})
	if err != nil {
		panic(err)
	}
	defer func() { _ = keeper.Shutdown(context.Background()) }()

	router := gin.New()
	lock := ginmw.FromHTTP(httpmw.Middleware(keeper, httpmw.PathInt("account", "id")))
	router.POST("/accounts/:id/transfer", lock, func(c *gin.Context) {
		c.String(http.StatusOK, "%t", lockmw.Held(c.Request.Context(), "account:7"))
	})

	show(router, "/accounts/07/transfer")
	// Output: 200 true
}

// show sends a request to a server and prints the answer.
func show(server http.Handler, path string) {
	w := httptest.NewRecorder()
	server.ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), http.MethodPost, path,
		http.NoBody))
	fmt.Println(w.Code, w.Body)
}
