package idempotent_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/lockmw/idempotent"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// A handler outlives its client, by FinishWithin at most. What has no answer by
// then says that some of it may have been done.
func TestFinishWithin(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		given idempotent.Config
		want  time.Duration
	}{
		"longer":          {idempotent.Config{FinishWithin: time.Hour}, time.Hour},
		"with its client": {idempotent.Config{EndWithClient: true}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
				c.given.Caller = byUser
				h := idempotent.Middleware(k, c.given)(http.HandlerFunc(
					func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
				begun := time.Now()
				gone, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				a := do(h, order(gone, "k", "pen"))
				assert.Equal(t, time.Second+c.want, time.Since(begun))
				p := requireProblem(t, a, http.StatusServiceUnavailable, httpguard.TypeTimeout)
				assert.Contains(t, p.Detail, "Some of it may have been done")
			})
		})
	}
}
