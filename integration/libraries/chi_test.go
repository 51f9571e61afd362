package libraries_test

import (
	"net/http"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// A lock on chi's route, as on a route of net/http's mux.
func TestExclusiveOnAChiRoute(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	r := chi.NewRouter()
	r.With(httpmw.Middleware(k, httpmw.PathValue("account", "id"))).Post("/accounts/{id}/transfer",
		func(w http.ResponseWriter, r *http.Request) {
			assert.True(t, lockmw.Held(r.Context(), "account:7"))
			assert.Positive(t, lockmw.Fence(r.Context()))
			assert.Equal(t, "7", r.PathValue("id"))
			ok(w, r)
		})
	a := send(t, r, http.MethodPost, "/accounts/7/transfer")
	assert.Equal(t, http.StatusOK, a.status)
	assert.Equal(t, "done", a.body)
	calls := store.Calls(script.Acquire)
	require.Len(t, calls, 1)
	assert.Equal(t, "account:7", calls[0].Claims[0].Name)
	assert.Equal(t, "/accounts/{id}/transfer", calls[0].Claims[0].Holder.Operation)
	assert.Len(t, store.Calls(script.Release), 1)
	assert.Empty(t, store.Owner("account:7"))
}

// What the lock is called, by chi's route and path. An empty name: the request is refused.
func TestPathValueNamesOnChi(t *testing.T) {
	t.Parallel()
	with := func(lock middleware, h http.Handler) http.Handler {
		r := chi.NewRouter()
		r.With(lock).Method(http.MethodGet, "/accounts/{id:[^/]{1,99}}/transfer", h)
		return r
	}
	for name, c := range map[string]struct {
		build      func(middleware, http.Handler) http.Handler
		path, want string
	}{
		"wildcard":             {with, "/accounts/7/transfer", "account:7"},
		"needless encoding":    {with, "/accounts/%37/transfer", "account:7"},
		"encoded, handed over": {with, "/accounts/%37%2541/transfer", "account:7%2541"},
		"encoded, decoded":     {with, "/accounts/7%2541/transfer", "account:7A"},
		"a slash in the value": {with, "/accounts/7%2F8/transfer", "account:7/8"},
		"another router's":     {chiUse, "/accounts/7", ""},
		"subrouter":            {chiRoute, "/tenants/a/accounts/7/close", "account:7"},
		"use in a subrouter":   {chiUseInRoute, "/accounts/7/close", "account:7"},
		"mounted":              {chiMount, "/api/accounts/7", "account:7"},
		"the same name twice":  {chiTwice, "/a/1/b/7", "account:7"},
		"in a mux":             {chiInMux, "/api/accounts/7", "account:7"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, store := scripted(t)
			h := c.build(httpmw.Middleware(k, httpmw.PathValue("account", "id")),
				http.HandlerFunc(ok))
			a := send(t, h, http.MethodGet, c.path)
			calls := store.Calls(script.Acquire)
			if c.want == "" {
				assert.Equal(t, http.StatusInternalServerError, a.status)
				assert.Empty(t, calls)
				return
			}
			assert.Equal(t, http.StatusOK, a.status)
			require.Len(t, calls, 1)
			require.Len(t, calls[0].Claims, 1)
			assert.Equal(t, c.want, calls[0].Claims[0].Name)
		})
	}
}

func chiUse(lock middleware, h http.Handler) http.Handler {
	r := chi.NewRouter()
	r.Use(lock)
	r.Method(http.MethodGet, "/accounts/{id}", h)
	return r
}

func chiRoute(lock middleware, h http.Handler) http.Handler {
	r := chi.NewRouter()
	r.Route("/tenants/{t}", func(r chi.Router) {
		r.Route("/accounts", func(r chi.Router) {
			r.With(lock).Method(http.MethodGet, "/{id}/close", h)
		})
	})
	return r
}

func chiUseInRoute(lock middleware, h http.Handler) http.Handler {
	r := chi.NewRouter()
	r.Route("/accounts/{id}", func(r chi.Router) {
		r.Use(lock)
		r.Method(http.MethodGet, "/close", h)
	})
	return r
}

func chiMount(lock middleware, h http.Handler) http.Handler {
	accounts := chi.NewRouter()
	accounts.Group(func(r chi.Router) {
		r.Use(lock)
		r.Method(http.MethodGet, "/accounts/{id}", h)
	})
	r := chi.NewRouter()
	r.Mount("/api", accounts)
	return r
}

func chiTwice(lock middleware, h http.Handler) http.Handler {
	r := chi.NewRouter()
	r.Route("/a/{id}", func(r chi.Router) { r.With(lock).Method(http.MethodGet, "/b/{id}", h) })
	return r
}

func chiInMux(lock middleware, h http.Handler) http.Handler {
	r := chi.NewRouter()
	r.With(lock).Method(http.MethodGet, "/accounts/{id}", h)
	mux := http.NewServeMux()
	mux.Handle("/api/", http.StripPrefix("/api", r))
	return mux
}
