package idempotent_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/idempotent"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// Without bounds a handler goes on for as long as it likes when its client has
// gone, and a request that is sent again waits for its answer.
func TestNoBound(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
		const long = time.Hour
		gone, leave := context.WithCancel(t.Context())
		h := idempotent.Middleware(k, idempotent.Config{
			Caller: byUser, Lock: byName(lockmw.All(customer)),
			WaitForAnswer: lockmw.NoBound, FinishWithin: lockmw.NoBound, MaxHold: lockmw.NoBound,
			MaxRunningPerCaller: lockmw.NoBound, MaxStored: lockmw.NoBound, MaxBody: lockmw.NoBound,
		})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			leave()
			waitFor(long)
			assert.NoError(t, r.Context().Err())
			ok(w, r)
		}))
		go answered(h, order(gone, "k", "pen"))
		synctest.Wait()
		begun := time.Now()
		again := answered(h, order(t.Context(), "k", "pen"))
		assert.Equal(t, http.StatusOK, again.Code)
		assert.Equal(t, "true", again.Header().Get("Idempotent-Replayed"))
		assert.Equal(t, long, time.Since(begun))
	})
}

// The two waits of a request are more than any WriteTimeout, together too.
func TestAWriteTimeoutIsBelowNoBound(t *testing.T) {
	t.Parallel()
	k, o := observed(t)
	h := idempotent.Middleware(k, idempotent.Config{
		Caller: byUser, Lock: byName(lockmw.All(customer)), WaitForAnswer: lockmw.NoBound,
	})(http.HandlerFunc(ok))
	ctx := context.WithValue(t.Context(), http.ServerContextKey,
		&http.Server{WriteTimeout: time.Minute})
	assert.Equal(t, http.StatusOK, answered(h, order(ctx, "k", "pen")).Code)
	require.Len(t, o.SetUp(t), 1)
	assert.Contains(t, o.SetUp(t)[0], "WriteTimeout (1m0s)")
}
