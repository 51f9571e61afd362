package idempotent_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/idempotent"
)

// A server that gives up writing before the answer can be there runs handlers for clients that see
// the connection end, and come again. The observer is told when the first request is there, once.
func TestAWriteTimeoutBelowTheWaitIsToldOf(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		opts []idempotent.Option
		want []string // what the one fault says; nil: there is none
	}{
		"waiting": {
			[]idempotent.Option{idempotent.WaitForAnswer(time.Minute)},
			[]string{"WriteTimeout (5s)", "1m0s", `"/{path...}"`},
		},
		"not waiting": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, o := observed(t)
			mux := http.NewServeMux()
			mux.Handle("/{path...}",
				idempotent.Middleware(k, byName("a"), c.opts...)(http.HandlerFunc(ok)))
			s := serve(t, mux, func(s *httptest.Server) { s.Config.WriteTimeout = 5 * time.Second })
			for _, key := range []string{"a", "b"} {
				send(t, s, http.MethodPost, "/secret", http.NoBody, "Idempotency-Key", key)
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
