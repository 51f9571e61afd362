package idempotent_test

import (
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/lockmw/idempotent"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// The lock was lost, another request took over and came to nothing, and then the handler has
// answered: its body has been read, and it is not run again. Its answer is the only one, and is
// stored.
func TestAHandlerRunsOnceThoughItsTakeoverFailed(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		var h http.Handler
		var bodies []string
		h = idempotent.Middleware(k,
			byUser)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			assert.NoError(t, err)
			bodies = append(bodies, string(body))
			switch len(bodies) {
			case 1:
				s.Delete(names(s)[0])
				<-r.Context().Done()
				second := answered(h, order(context.WithoutCancel(t.Context()), "k", "pen"))
				assert.Equal(t, http.StatusInternalServerError, second.Code)
				_, _ = io.WriteString(w, "done")
			case 2:
				http.Error(w, "the database is down", http.StatusInternalServerError)
			default:
				http.Error(w, "an empty order", http.StatusBadRequest)
			}
		}))
		w := answered(h, order(t.Context(), "k", "pen"))
		assert.Equal(t, "done", w.Body.String())
		assert.Empty(t, w.Header().Get("Idempotent-Replayed"))
		w = answered(h, order(t.Context(), "k", "pen"))
		assert.Equal(t, "done", w.Body.String())
		assert.Equal(t, "true", w.Header().Get("Idempotent-Replayed"))
		assert.Equal(t, []string{"pen", "pen"}, bodies,
			"two requests, two runs, each with its body")
	})
}
