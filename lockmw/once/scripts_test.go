//go:build unix

package once_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// The pause after a failure is told by Redis's clock, and Forget ends it.
func TestPausesOnRedis(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	k, closeAll, err := onServer(redis.Addr(), time.Minute)
	require.NoError(t, err)
	t.Cleanup(closeAll)
	_, err = once.Do(t.Context(), k, "a", fail, once.NoRetry(), once.RetryIn(time.Hour))
	require.ErrorIs(t, err, errOperation)
	_, err = once.Do(t.Context(), k, "a", never(t), once.Wait(time.Second))
	require.ErrorIs(t, err, once.ErrNotYet)
	info, err := once.Look(t.Context(), k, "a")
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), info.Written, time.Minute)
	require.WithinDuration(t, time.Now().Add(time.Hour), info.NotBefore, 31*time.Minute)
	require.WithinDuration(t, time.Now().Add(24*time.Hour), info.Until, time.Minute)
	require.NoError(t, once.Forget(t.Context(), k, "a"))
	got, err := once.Do(t.Context(), k, "a", func(ctx context.Context) (report, error) {
		return report{Pages: once.Current(ctx).Number}, nil
	})
	require.NoError(t, err)
	require.Equal(t, report{Pages: 1}, got)
	require.NoError(t, once.Forget(t.Context(), k, "a"))
	requireTTLs(t, redis)
}
