package idempotent_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/idempotent"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

func TestMaxHoldOfARequest(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
		begun := time.Now()
		guarded := idempotent.Middleware(k, idempotent.Config{Caller: byName("ann"), MaxHold: 5 * time.Minute})(
			http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				<-r.Context().Done()
				var lost *renewer.LostError
				assert.ErrorAs(t, context.Cause(r.Context()), &lost)
				assert.Equal(t, renewer.ReasonMaxHold, lost.Reason)
			}))
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", http.NoBody)
		r.Header.Set("Idempotency-Key", "k")
		do(guarded, r)
		require.Equal(t, 5*time.Minute, time.Since(begun))
		require.Panics(t, func() {
			idempotent.Middleware(k, idempotent.Config{Caller: byName("ann"), MaxHold: time.Second})
		})
	})
}
