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

// middleware is what a router puts around a handler.
type middleware = func(http.Handler) http.Handler

// The issue's own example, on both routers.
func TestExclusiveOnARoute(t *testing.T) {
	t.Parallel()
	for name, build := range map[string]func(lock middleware,
		transfer http.Handler) (h http.Handler, operation string){
		"net/http": func(lock middleware, transfer http.Handler) (http.Handler, string) {
			mux := http.NewServeMux()
			mux.Handle("POST /accounts/{id}/transfer", lock(transfer))
			return mux, "POST /accounts/{id}/transfer"
		},
		"chi": func(lock middleware, transfer http.Handler) (http.Handler, string) {
			r := chi.NewRouter()
			r.With(lock).Method(http.MethodPost, "/accounts/{id}/transfer", transfer)
			return r, "/accounts/{id}/transfer"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, store := scripted(t)
			h, operation := build(httpmw.Exclusive(k, httpmw.PathValue("id")), http.HandlerFunc(
				func(w http.ResponseWriter, r *http.Request) {
					assert.True(t, lockmw.Held(r.Context(), "/accounts/7"))
					assert.Positive(t, lockmw.Fence(r.Context()))
					assert.Equal(t, "7", r.PathValue("id"))
					ok(w, r)
				}))
			a := send(t, serve(t, h), http.MethodPost, "/accounts/7/transfer", http.NoBody)
			assert.Equal(t, http.StatusOK, a.StatusCode)
			assert.Equal(t, "done", a.body)
			calls := store.Calls(script.Acquire)
			require.Len(t, calls, 1)
			assert.Equal(t, "/accounts/7", calls[0].Claims[0].Name)
			assert.Equal(t, operation, calls[0].Claims[0].Holder.Operation)
			assert.Len(t, store.Calls(script.Release), 1)
			assert.Empty(t, store.Owner("/accounts/7"))
		})
	}
}

// What the lock is called, by route and path. An empty name: the
// request is refused with the status.
func TestPathValueNames(t *testing.T) {
	t.Parallel()
	mux := func(pattern string) func(middleware, http.Handler) http.Handler {
		return func(lock middleware, h http.Handler) http.Handler {
			m := http.NewServeMux()
			m.Handle(pattern, lock(h))
			return m
		}
	}
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
			build: mux("/accounts/{id}"), path: "/accounts/7",
			want: "/accounts/7",
		},
		"method and host": {
			build: mux("GET 127.0.0.1/accounts/{id}"),
			path:  "/accounts/7", want: "/accounts/7",
		},
		"what lies below": {
			build: mux("GET /accounts/{id}/transfer/{n}"),
			path:  "/accounts/7/transfer/8", want: "/accounts/7",
		},
		"end of the path": {
			build: mux("/accounts/{id}/{$}"), path: "/accounts/7/",
			want: "/accounts/7",
		},
		"everything below": {
			build: mux("/accounts/{id}/"), path: "/accounts/7/a/b",
			want: "/accounts/7",
		},
		"parents count": {
			build: mux("/tenants/{t}/accounts/{id}"),
			path:  "/tenants/a/accounts/7", want: "/tenants/a/accounts/7",
		},
		"a slash in a parent": {
			build: mux("/{t}/{u}/{id}"), path: "/a%2Fb/c/7",
			want: "/a%2Fb/c/7",
		},
		"a slash in the value": {
			build: mux("/accounts/{id}"), path: "/accounts/7%2f8",
			want: "/accounts/7%2F8",
		},
		"a percent sign": {
			build: mux("/accounts/{id}"), path: "/accounts/100%25",
			want: "/accounts/100%25",
		},
		"needless encoding": {
			build: mux("/accounts/{id}"), path: "/accounts/%37",
			want: "/accounts/7",
		},
		"encoding in the value": {
			build: mux("/accounts/{id}"), path: "/accounts/%2537",
			want: "/accounts/7",
		},
		"control bytes": {
			build: mux("/accounts/{id}"), path: "/accounts/%00%7F",
			want: "/accounts/%00%7F",
		},
		"another script": {
			build: mux("/konten/{id}"), path: "/konten/%C3%A9",
			want: "/konten/é",
		},
		"no encoding in the value": {
			build: mux("/accounts/{id}"),
			path:  "/accounts/%25zz%25az%25za", want: "/accounts/%25zz%25az%25za",
		},
		"encoding in the route": {
			build: mux("/caf%C3%A9/{id}"), path: "/caf%C3%A9/7",
			want: "/café/7",
		},
		"a slash in the route": {
			build: mux("/a%2Fb/{id}"), path: "/a%2Fb/7",
			want: "/a%2Fb/7",
		},
		"the rest": {
			build: mux("/files/{id...}"), path: "/files/a/b",
			want: "/files/a/b",
		},
		"no rest": {
			build: mux("/files/{id...}"), path: "/files/",
			status: http.StatusBadRequest,
		},
		"a star": {build: mux("/a*/{id}"), path: "/a*/7", want: "/a*/7"},
		"no such wildcard": {
			build: mux("/accounts/{nr}"), path: "/accounts/7",
			status: http.StatusInternalServerError,
		},
		"no route": {build: func(lock middleware, h http.Handler) http.Handler {
			return lock(h)
		}, path: "/7", status: http.StatusInternalServerError},
		"too long": {
			build: mux("/accounts/{id}"),
			path:  "/accounts/" + repeat("x", 10<<10), status: http.StatusBadRequest,
		},
		"too long and all encoded": {
			build: mux("/accounts/{id}"),
			path:  "/accounts/%" + repeat("25", 5<<10), want: "/accounts/%25",
		},
		"chi: wildcard": {
			build: with("/accounts/{id}"), path: "/accounts/7",
			want: "/accounts/7",
		},
		"chi: below": {
			build: with("/accounts/{id}/transfer"),
			path:  "/accounts/7/transfer", want: "/accounts/7",
		},
		"chi: pattern": {
			build: with("/accounts/{id:[0-9]{1,3}}/x"),
			path:  "/accounts/7/x", want: "/accounts/7",
		},
		"chi: pattern of a parent": {
			build: with("/{day:[0-9]{1,2}}/{id}"), path: "/12/7",
			want: "/12/7",
		},
		"chi: format": {
			build: with("/accounts/{id}.{format}"),
			path:  "/accounts/7.json", want: "/accounts/7",
		},
		"chi: parts of a segment": {build: with("/{day}-{id}"), path: "/1-2-3", want: "/1-2-3"},
		"chi: parts, encoded": {
			build: with("/{day}-{id}"), path: "/1%2D2-3",
			want: "/1%2D2-3",
		},
		"chi: the rest": {
			build: with("/files/*"), value: "*", path: "/files/a/b",
			want: "/files/a/b",
		},
		"chi: needless encoding": {
			build: with("/accounts/{id}"), path: "/accounts/%37",
			want: "/accounts/7",
		},
		"chi: encoded, handed over": {
			build: with("/accounts/{id}"), path: "/accounts/%37%2541",
			want: "/accounts/7A",
		},
		"chi: encoded, decoded": {
			build: with("/accounts/{id}"), path: "/accounts/7%2541",
			want: "/accounts/7A",
		},
		"chi: a slash in the value": {
			build: with("/accounts/{id}"), path: "/accounts/7%2F8",
			want: "/accounts/7%2F8",
		},
		"chi: another routers route": {
			build: chiUse, path: "/accounts/7",
			status: http.StatusInternalServerError,
		},
		"chi: subrouter": {
			build: chiRoute, path: "/tenants/a/accounts/7/close",
			want: "/tenants/a/accounts/7",
		},
		"chi: use in a subrouter": {
			build: chiUseInRoute, path: "/accounts/7/close",
			want: "/accounts/7",
		},
		"chi: mounted": {
			build: chiMount, path: "/api/accounts/7",
			want: "/api/accounts/7",
		},
		"chi: the same name twice": {build: chiTwice, path: "/a/1/b/7", want: "/a/7/b/7"},
		"chi in a mux": {
			build: chiInMux, path: "/api/accounts/7",
			want: "/accounts/7",
		},
		"a router without patterns": {build: bare, path: "/7", want: "id:7%3A8"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.value == "" {
				c.value = "id"
			}
			k, store := scripted(t)
			h := c.build(httpmw.Exclusive(k, httpmw.PathValue(c.value)), http.HandlerFunc(ok))
			s := serve(t, h)
			a := send(t, s, http.MethodGet, c.path, http.NoBody)
			if c.want != "" {
				assert.Equal(t, http.StatusOK, a.StatusCode)
				assert.Equal(t, []string{c.want}, names(store))
				return
			}
			assert.Equal(t, c.status, a.StatusCode)
			assert.False(t, asked(store))
		})
	}
}

func TestPlain(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{
		"": "", "a%": "a%", "%4": "%4", "%4a%4A": "JJ", "%fF": "\xff", "%2541": "A",
		"%2%35%34%31": "A", "%4%3%37": "G", "%g0%0g": "%g0%0g",
	} {
		assert.Equal(t, want, httpmw.Plain(s), s)
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

func bare(lock middleware, h http.Handler) http.Handler {
	locked := lock(h)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.SetPathValue("id", "7%253A8")
		locked.ServeHTTP(w, r)
	})
}
