package httpmw_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// middleware is what a router puts around a handler.
type middleware = func(http.Handler) http.Handler

// A lock on a route knows the route's name and its wildcards.
func TestExclusiveOnARoute(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	mux := http.NewServeMux()
	mux.Handle("POST /accounts/{id}/transfer", httpmw.Exclusive(k, httpmw.PathValue("id"))(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			assert.True(t, lockmw.Held(r.Context(), "/accounts/7"))
			assert.Positive(t, lockmw.Fence(r.Context()))
			assert.Equal(t, "7", r.PathValue("id"))
			ok(w, r)
		})))
	a := send(t, serve(t, mux), http.MethodPost, "/accounts/7/transfer", http.NoBody)
	assert.Equal(t, http.StatusOK, a.StatusCode)
	assert.Equal(t, "done", a.body)
	calls := store.Calls(script.Acquire)
	require.Len(t, calls, 1)
	assert.Equal(t, "/accounts/7", calls[0].Claims[0].Name)
	assert.Equal(t, "POST /accounts/{id}/transfer", calls[0].Claims[0].Holder.Operation)
	assert.Len(t, store.Calls(script.Release), 1)
	assert.Empty(t, store.Owner("/accounts/7"))
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

func bare(lock middleware, h http.Handler) http.Handler {
	locked := lock(h)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.SetPathValue("id", "7%253A8")
		locked.ServeHTTP(w, r)
	})
}
