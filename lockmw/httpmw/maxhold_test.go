package httpmw_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// requireBounded waits until an operation has had its lock for five minutes.
func requireBounded(ctx context.Context, t *testing.T) {
	begun := time.Now()
	<-ctx.Done()
	var lost *renewer.LostError
	require.ErrorAs(t, context.Cause(ctx), &lost)
	require.Equal(t, renewer.ReasonMaxHold, lost.Reason)
	require.Equal(t, 5*time.Minute, time.Since(begun))
}

func TestMaxHoldOfARequest(t *testing.T) {
	t.Parallel()
	work := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		requireBounded(r.Context(), t)
	})
	typed := func(w http.ResponseWriter, r *http.Request, _ struct{}) { work(w, r) }
	named := func(struct{}) string { return "a" }
	option, short := lockmw.MaxHold(5*time.Minute), lockmw.MaxHold(time.Second)
	inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
		guarded := httpmw.Middleware(k, byName("a"), option)(work)
		require.Equal(t, http.StatusServiceUnavailable, do(guarded, get(t, "/")).StatusCode)
		r := get(t, "/")
		r.Body = http.NoBody
		_ = do(httpmw.Wrap(k, named, typed, option), r)

		for _, f := range []func(){
			func() { httpmw.Middleware(k, byName("a"), short) },
			func() { httpmw.Wrap(k, named, typed, short) },
		} {
			require.PanicsWithValue(t, "lockbeat: invalid configuration: MaxHold is 1s, which is "+
				"less than one Heartbeat (5s): take a longer MaxHold, or a shorter TTL", f)
		}
	})
}
