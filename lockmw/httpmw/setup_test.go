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
