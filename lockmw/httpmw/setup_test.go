package httpmw_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
)

// A server that gives up writing before a request can have had its turn runs
// handlers for clients that see the connection end, and come again. It is told
// of when the first request is there, and once for each handler.
func TestAWriteTimeoutBelowTheWaitIsToldOf(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		timeout time.Duration
		opts    []httpmw.Option
		want    []string // what the one fault says; nil: there is none
	}{
		"below": {5 * time.Second, nil, []string{"WriteTimeout (5s)", "10s", `"/{path...}"`}},
		"the same": {
			time.Minute,
			[]httpmw.Option{lockmw.Wait(time.Minute)},
			[]string{"WriteTimeout (1m0s)", "(1m0s"},
		},
		"above":   {11 * time.Second, nil, nil},
		"none":    {0, nil, nil},
		"no wait": {5 * time.Second, []httpmw.Option{lockmw.Refuse()}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, o := observed(t)
			mux := http.NewServeMux()
			mux.Handle("/{path...}",
				httpmw.Middleware(k, byName("a"), c.opts...)(http.HandlerFunc(ok)))
			s := serve(t, mux, func(s *httptest.Server) { s.Config.WriteTimeout = c.timeout })
			for range 2 {
				send(t, s, http.MethodPost, "/secret", strings.NewReader(`{"Account":"7"}`))
			}
			errs := o.SetUp(t)
			if c.want == nil {
				assert.Empty(t, errs)
				return
			}
			require.Len(t, errs, 1)
			assert.NotContains(t, errs[0], "secret")
			for _, w := range c.want {
				assert.Contains(t, errs[0], w)
			}
		})
	}
}

// A lock on a route without its wildcard, or under a router that says nothing
// of routes, is a 500 for every request: the developer is told why, once, where
// the server's trouble is told. Neither that nor the answer has anything of the
// request in it.
func TestAWildcardThatIsNotThereIsToldOf(t *testing.T) {
	t.Parallel()
	k, o := observed(t)
	h := httpmw.Middleware(k, byPath)(never(t))
	mux := http.NewServeMux()
	mux.Handle("/accounts/{nr}", h)
	for range 2 {
		p := requireProblem(t, do(mux, get(t, "/accounts/"+secret)),
			http.StatusInternalServerError, "about:blank")
		assert.Contains(t, p.Detail, "is told what is wrong")
		requireProblem(t, do(h, get(t, "/accounts/"+secret)),
			http.StatusInternalServerError, "about:blank")
	}
	errs := o.SetUp(t)
	require.Len(t, errs, 1, "once")
	assert.Contains(t, errs[0], `the route "/accounts/{nr}" has no wildcard {id}`)
	assert.NotContains(t, errs[0], secret)
	// without an observer it is told to no one
	k, _ = scripted(t)
	requireProblem(t, do(httpmw.Middleware(k, byPath)(never(t)), get(t, "/")),
		http.StatusInternalServerError, "about:blank")
}
