package idempotent_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/lockbeat/lockbeat/lockmw/idempotent"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

// A client that does not know whether its order came through sends it again.
func ExampleMiddleware() {
	keeper, err := renewer.New(memory.New(), renewer.Config{TTL: renewer.DefaultTTL})
	if err != nil {
		panic(err)
	}
	defer func() { _ = keeper.Shutdown(context.Background()) }()
	orders := 0
	byUser := func(r *http.Request) string { return r.Header.Get("User") }
	handler := idempotent.Middleware(keeper, idempotent.Config{Caller: byUser, Scope: "shop"})(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		orders++
		w.WriteHeader(http.StatusCreated)
	}))
	for _, body := range []string{"one pen", "one pen", "two pens"} {
		r := httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader(body))
		r.Header.Set("User", "ann")
		r.Header.Set("Idempotency-Key", "8e03978e")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Get("Idempotent-Replayed") == "true", "orders:", orders)
	}
	// Output:
	// 201 false orders: 1
	// 201 true orders: 1
	// 422 false orders: 1
}
