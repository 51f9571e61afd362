package idempotent_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/lockmw/idempotent"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// The store is down when the handler has answered. With OnlyRecorded the first client is not told
// what no other will be.
func TestAnAnswerThatCantBeRecorded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		opts          []idempotent.Option
		first, second string
	}{
		"goes out by default": {nil, "order 1: pen", "order 2: pen"},
		"does not go out with OnlyRecorded": {
			[]idempotent.Option{idempotent.OnlyRecorded()}, "", "order 2: pen",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				var shop shop
				h := idempotent.Middleware(k, byUser, c.opts...)(&shop)
				s.Default(script.Write, script.Fail(errDown))
				w := answered(h, order(t.Context(), "k", "pen"))
				if c.first == "" {
					p := requireProblem(t, asReply(w), http.StatusServiceUnavailable,
						httpmw.TypeUnknown)
					assert.Contains(t, p.Detail, "is on record")
					assert.NotEmpty(t, w.Header().Get("Retry-After"))
					assert.Empty(t, w.Header().Get("Location"), "which is the handler's")
				} else {
					assert.Equal(t, c.first, w.Body.String())
				}
				s.Default(script.Write, script.Pass())
				for range 2 { // and from then on
					w = answered(h, order(t.Context(), "k", "pen"))
					assert.Equal(t, c.second, w.Body.String())
				}
				assert.Equal(t, "true", w.Header().Get(idempotent.ReplayedHeader))
			})
		})
	}
}
