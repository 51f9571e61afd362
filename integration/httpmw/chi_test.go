package httpmw_test

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
	r.With(httpmw.Exclusive(k, httpmw.PathValue("id"))).Post("/accounts/{id}/transfer",
		func(w http.ResponseWriter, r *http.Request) {
			assert.True(t, lockmw.Held(r.Context(), "/accounts/7"))
			assert.Positive(t, lockmw.Fence(r.Context()))
			assert.Equal(t, "7", r.PathValue("id"))
			ok(w, r)
		})
	a := send(t, r, http.MethodPost, "/accounts/7/transfer")
	assert.Equal(t, http.StatusOK, a.status)
	assert.Equal(t, "done", a.body)
	calls := store.Calls(script.Acquire)
	require.Len(t, calls, 1)
	assert.Equal(t, "/accounts/7", calls[0].Claims[0].Name)
	assert.Equal(t, "/accounts/{id}/transfer", calls[0].Claims[0].Holder.Operation)
	assert.Len(t, store.Calls(script.Release), 1)
	assert.Empty(t, store.Owner("/accounts/7"))
}

// What the lock is called, by chi's route and path. An empty name: the
// request is refused with the status.
func TestPathValueNamesOnChi(t *testing.T) {
	t.Parallel()
	with := func(pattern string) func(middleware, http.Handler) http.Handler {
		return func(lock middleware, h http.Handler) http.Handler {
			r := chi.NewRouter()
			r.With(lock).Method(http.MethodGet, pattern, h)
			return r
		}
	}
	for name, c := range map[string]struct {
		build  func(middleware, http.Handler) http.Handler
		value  string
		path   string
		want   string
		status int
	}{
		"wildcard": {
			build: with("/accounts/{id}"), path: "/accounts/7",
			want: "/accounts/7",
		},
		"below": {
			build: with("/accounts/{id}/transfer"),
			path:  "/accounts/7/transfer", want: "/accounts/7",
		},
		"pattern": {
			build: with("/accounts/{id:[0-9]{1,3}}/x"),
			path:  "/accounts/7/x", want: "/accounts/7",
		},
		"pattern of a parent": {
			build: with("/{day:[0-9]{1,2}}/{id}"), path: "/12/7",
			want: "/12/7",
		},
		"format": {
			build: with("/accounts/{id}.{format}"),
			path:  "/accounts/7.json", want: "/accounts/7",
		},
		"parts of a segment": {build: with("/{day}-{id}"), path: "/1-2-3", want: "/1-2-3"},
		"parts, encoded": {
			build: with("/{day}-{id}"), path: "/1%2D2-3",
			want: "/1%2D2-3",
		},
		"the rest": {
			build: with("/files/*"), value: "*", path: "/files/a/b",
			want: "/files/a/b",
		},
		"needless encoding": {
			build: with("/accounts/{id}"), path: "/accounts/%37",
			want: "/accounts/7",
		},
		"encoded, handed over": {
			build: with("/accounts/{id}"), path: "/accounts/%37%2541",
			want: "/accounts/7A",
		},
		"encoded, decoded": {
			build: with("/accounts/{id}"), path: "/accounts/7%2541",
			want: "/accounts/7A",
		},
		"a slash in the value": {
			build: with("/accounts/{id}"), path: "/accounts/7%2F8",
			want: "/accounts/7%2F8",
		},
		"another routers route": {
			build: chiUse, path: "/accounts/7",
			status: http.StatusInternalServerError,
		},
		"subrouter": {
			build: chiRoute, path: "/tenants/a/accounts/7/close",
			want: "/tenants/a/accounts/7",
		},
		"use in a subrouter": {
			build: chiUseInRoute, path: "/accounts/7/close",
			want: "/accounts/7",
		},
		"mounted": {
			build: chiMount, path: "/api/accounts/7",
			want: "/api/accounts/7",
		},
		"the same name twice": {build: chiTwice, path: "/a/1/b/7", want: "/a/7/b/7"},
		"in a mux": {
			build: chiInMux, path: "/api/accounts/7",
			want: "/accounts/7",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.value == "" {
				c.value = "id"
			}
			k, store := scripted(t)
			h := c.build(httpmw.Exclusive(k, httpmw.PathValue(c.value)), http.HandlerFunc(ok))
			a := send(t, h, http.MethodGet, c.path)
			calls := store.Calls(script.Acquire)
			if c.want == "" {
				assert.Equal(t, c.status, a.status)
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
