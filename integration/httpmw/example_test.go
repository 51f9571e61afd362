package httpmw_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/go-chi/chi/v5"

	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

// With chi the lock goes where routes are made: on r.With, or r.Use below r.Route.
func Example_chi() {
	ctx := context.Background()
	// in production redisstore in place of memory
	keeper, err := renewer.New(memory.New(), renewer.Config{TTL: renewer.DefaultTTL})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = keeper.Shutdown(ctx) }()
	transfer := func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, "from account ", chi.URLParam(r, "id"))
	}

	r := chi.NewRouter()
	r.With(httpmw.Middleware(keeper, httpmw.PathInt("account", "id"))).Post("/accounts/{id}/transfer",
		transfer)

	w := httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, "/accounts/7/transfer",
		http.NoBody))
	fmt.Println(w.Code, w.Body)
	// Output: 200 from account 7
}
