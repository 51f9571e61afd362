package idempotent_test

import (
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/lockmw/idempotent"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// One caller's requests at once are bounded. One more is told so, and not that
// its key is in flight.
func TestACallerHasSoManyRequestsAtOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
		finish := make(chan struct{})
		var told error
		h := idempotent.Middleware(k, idempotent.Config{Caller: byUser, MaxRunningPerCaller: 2, OnRefused: func(w http.ResponseWriter, r *http.Request, err error) {
			told = err
			httpmw.Respond(w, r, err)
		}})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-finish
			ok(w, r)
		}))
		var all sync.WaitGroup
		for _, key := range []string{"a", "b"} {
			all.Go(func() { answered(h, order(t.Context(), key, "pen")) })
		}
		waitFor(time.Second)
		begun := time.Now()
		w := answered(h, order(t.Context(), "c", "pen"))
		p := requireProblem(t, read(w.Result()), http.StatusTooManyRequests, httpguard.TypeTooMany)
		assert.Contains(t, p.Detail, "has not been carried out")
		assert.NotContains(t, w.Body.String(), "ann")
		wait, err := strconv.Atoi(w.Header().Get("Retry-After"))
		require.NoError(t, err)
		assert.Positive(t, wait)
		require.ErrorIs(t, told, idempotent.ErrQuota)
		assert.Equal(t, http.StatusConflict, answered(h, order(t.Context(), "a", "pen")).Code,
			"a key in flight is another refusal")
		assert.Zero(t, time.Since(begun), "at once")

		close(finish)
		all.Wait()
		assert.Equal(t, http.StatusOK, answered(h, order(t.Context(), "c", "pen")).Code)
	})
}
