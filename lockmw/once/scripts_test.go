//go:build unix

package once_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// New work costs five scripts: a read of the record, the acquire, the attempt's begin, the result,
// and the release. So does an attempt that fails, for the pause that follows, and a takeover. A
// replay costs one.
func TestScripts(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	k, closeAll, err := onServer(redis.Addr(), time.Minute) // so that no heartbeat is due
	require.NoError(t, err)
	t.Cleanup(closeAll)
	const works = 100
	each := func(t *testing.T, want int, do func(name string) error) {
		t.Helper()
		require.NoError(t, do("the first, which teaches the server the scripts"))
		before, err := redis.Calls("evalsha")
		require.NoError(t, err)
		for i := range works {
			require.NoError(t, do(fmt.Sprint(i)))
		}
		after, err := redis.Calls("evalsha")
		require.NoError(t, err)
		require.EqualValues(t, want*works, after-before)
	}
	succeed := func(name string) error {
		_, err := once.Do(t.Context(), k, name, answer(report{Pages: 5}))
		return err
	}
	each(t, 5, succeed)
	each(t, 1, succeed)
	failing := func(name string) error {
		_, err := once.Do(t.Context(), k, "failing "+name, fail, once.NoRetry(),
			once.RetryIn(time.Millisecond))
		require.ErrorIs(t, err, errOperation)
		return nil
	}
	each(t, 5, failing)
	elapse(10 * time.Millisecond) // so that no attempt pauses
	each(t, 5, func(name string) error { return succeed("failing " + name) })
}

// On redisstore a result may be as large as its record, less the room for the rest of it.
func TestMostOfRedis(t *testing.T) {
	t.Parallel()
	k, closeAll, err := onServer(redistest.Start(t).Addr(), time.Minute)
	require.NoError(t, err)
	t.Cleanup(closeAll)
	const most = 16<<20 - 1024
	_, err = once.Do(t.Context(), k, "a", never(t), once.MaxResult(most+1))
	require.ErrorIs(t, err, renewer.ErrConfig)
	for range 2 {
		got, err := once.Do(t.Context(), k, "a", func(context.Context) (string, error) {
			return strings.Repeat("x", most-2), nil
		}, once.MaxResult(most))
		require.NoError(t, err)
		require.Len(t, got, most-2)
	}
}

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
