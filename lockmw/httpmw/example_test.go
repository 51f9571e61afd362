package httpmw_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/adapter"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

// start returns a keeper; in production on redisstore in place of memory.
func start() (*renewer.Keeper, func()) {
	keeper, err := renewer.New(memory.New(), renewer.Config{TTL: renewer.DefaultTTL})
	if err != nil {
		panic(err)
	}
	return keeper, func() { _ = keeper.Shutdown(context.Background()) }
}

// show sends a request to a handler and prints the answer.
func show(h http.Handler, method, path, body string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), method, path,
		strings.NewReader(body)))
	fmt.Println(w.Code, w.Body)
}

// One transfer at a time is made from an account, on whichever
// server. The handler knows nothing of it.
func ExampleMiddleware() {
	keeper, stop := start()
	defer stop()
	transfer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, "from account ", r.PathValue("id"))
	})

	mux := http.NewServeMux()
	mux.Handle("POST /accounts/{id}/transfer",
		httpmw.Middleware(keeper, httpmw.PathInt("account", "id"))(transfer))

	show(mux, http.MethodPost, "/accounts/7/transfer", "")
	// Output: 200 from account 7
}

// Three exports of a tenant run at once, and twenty in all. One more is
// refused.
func ExampleMiddleware_limits() {
	keeper, stop := start()
	defer stop()
	limits := httpmw.Middleware(keeper, func(r *http.Request) lockmw.Set {
		tenant := lockmw.Key("tenant", r.PathValue("id"))
		return lockmw.All(lockmw.Limit(tenant, 3), lockmw.Limit("exports", 20))
	}, lockmw.Refuse())
	mux := http.NewServeMux()
	mux.Handle("GET /tenants/{id}/export", limits(http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "exported") })))

	for range 3 { // exports of tenant 7 run elsewhere
		_, done, _ := adapter.Enter(context.Background(), keeper, lockmw.Limit("tenant:7", 3))
		defer func() { _ = done(nil) }()
	}
	show(mux, http.MethodGet, "/tenants/7/export", "")
	show(mux, http.MethodGet, "/tenants/8/export", "")
	// Output:
	// 429 {"type":"https://pkg.go.dev/github.com/lockbeat/lockbeat/lockmw/httpmw#limit","title":"At its limit","status":429,"detail":"This resource is at its limit of 3 at once. The request has not been carried out."}
	// 200 exported
}

// Who can't have the lock is told so in a form that programs read, without the
// lock's name.
func ExampleRefuse() {
	keeper, stop := start()
	defer stop()
	mux := http.NewServeMux()
	mux.Handle("POST /accounts/{id}/transfer",
		httpmw.Middleware(keeper, httpmw.PathInt("account", "id"),
			lockmw.Refuse())(
			http.NotFoundHandler()))

	_, _ = lockmw.Do(context.Background(), keeper, "account:7",
		func(context.Context) (any, error) {
			show(mux, http.MethodPost, "/accounts/7/transfer", "") // another call chain
			return nil, nil
		})
	// Output:
	// 409 {"type":"https://pkg.go.dev/github.com/lockbeat/lockbeat/lockmw/httpmw#busy","title":"Busy","status":409,"detail":"Another request holds the lock on this resource. The request has not been carried out."}
}

// A key that only the body has: the body is decoded first.
func ExampleHandle() {
	keeper, stop := start()
	defer stop()
	type transfer struct{ From, To string }
	h := httpmw.Wrap(keeper, func(t transfer) string { return lockmw.Key("account", t.From) },
		func(w http.ResponseWriter, _ *http.Request, t transfer) {
			_, _ = fmt.Fprint(w, t.From, " to ", t.To)
		})

	show(h, http.MethodPost, "/", `{"From":"7","To":"8"}`)
	show(h, http.MethodPost, "/", `{"From":`)
	// Output:
	// 200 7 to 8
	// 400 {"type":"https://pkg.go.dev/github.com/lockbeat/lockbeat/lockmw/httpmw#bad-request","title":"Bad request","status":400,"detail":"The body of the request can't be read or decoded. The request has not been carried out."}
}

// A client that makes one call for an order at a time, whichever process it is
// in, and tells the far side its fencing token.
func ExampleInjectFence() {
	keeper, stop := start()
	defer stop()
	server := httptest.NewServer(httpmw.ReceiveFence(http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request,
	) {
		_, _ = fmt.Fprint(w, "under a token: ", lockmw.Fence(r.Context()) > 0)
	})))
	defer server.Close()

	ship := func(ctx context.Context) (string, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, http.NoBody)
		if err != nil {
			return "", err
		}
		httpmw.InjectFence(ctx, req.Header)
		res, err := server.Client().Do(req)
		if err != nil {
			return "", err
		}
		defer func() { _ = res.Body.Close() }()
		body, err := io.ReadAll(res.Body) // under the lock, too
		return string(body), err
	}
	fmt.Println(lockmw.Do(context.Background(), keeper, lockmw.Key("order", "42"), ship))
	// Output: under a token: true <nil>
}
