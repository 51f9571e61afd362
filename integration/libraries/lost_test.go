package libraries_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis/rueidislock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// An old lock is renewed until work returns, also when the caller has left.
func TestRenewedUntilWorkReturns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var renewals []time.Duration
		begun := time.Now()
		ctx, leave := context.WithCancel(t.Context())
		err := renewed(ctx, 8*time.Second, func(ctx context.Context) error {
			renewals = append(renewals, time.Since(begun))
			return ctx.Err()
		}, func(ctx context.Context) error {
			leave()
			<-ctx.Done()
			assert.Equal(t, context.Canceled, context.Cause(ctx))
			<-time.After(5 * time.Second)
			return nil
		})
		require.NoError(t, err)
		assert.Equal(t, []time.Duration{0, 2 * time.Second, 4 * time.Second}, renewals)
	})
}

// The context of work ends a fifth of the TTL before another process can have the old lock, counted
// from the request of the last renewal that was confirmed, however late its answer came.
func TestOldLockIsLost(t *testing.T) {
	t.Parallel()
	away := errors.New("Redis is away")
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		err := renewed(t.Context(), 10*time.Second, func(context.Context) error {
			if time.Since(begun) > 4*time.Second {
				return away
			}
			<-time.After(time.Second)
			return nil
		}, func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		require.ErrorIs(t, err, errOldLock)
		assert.Equal(t, 3500*time.Millisecond+8*time.Second, time.Since(begun))
	})
}

// Work does not begin if the old lock is lost already.
func TestOldLockIsLostAtOnce(t *testing.T) {
	t.Parallel()
	away := errors.New("it is another's")
	err := renewed(t.Context(), time.Second, func(context.Context) error { return away },
		func(context.Context) error { panic("it must not run") })
	assert.Equal(t, away, err)
}

// rueidislock renews its lock until work has returned, also when the caller has left, and frees it.
func TestRueidislockRenewsUntilWorkReturns(t *testing.T) {
	t.Parallel()
	server, locks := startLocker(t)
	ctx, leave := context.WithCancel(t.Context())
	err := underRueidislock(ctx, locks, lockName, func(ctx context.Context) error {
		leave()
		<-ctx.Done()
		const key = "rueidislock:0:" + lockName
		assert.NoError(t, server.Do("PEXPIRE", key, "30000").Error())
		assert.Eventually(t, func() bool {
			left, err := server.Do("PTTL", key).AsInt64()
			return err == nil && left > 30_000
		}, 20*time.Second, time.Millisecond, "it is renewed")
		return context.Cause(ctx)
	})
	require.ErrorIs(t, err, context.Canceled)
	assert.Empty(t, locksOf(t, server))
}

func TestRueidislockIsLost(t *testing.T) {
	t.Parallel()
	server, locks := startLocker(t)
	err := underRueidislock(t.Context(), locks, lockName, func(ctx context.Context) error {
		for _, key := range locksOf(t, server) {
			assert.NoError(t, server.Do("DEL", key).Error())
		}
		<-ctx.Done()
		return context.Cause(ctx)
	})
	require.ErrorIs(t, err, errOldLock)
}

func startLocker(t *testing.T) (*redistest.Server, rueidislock.Locker) {
	t.Helper()
	server := redistest.Start(t)
	locks, err := newLocker(server.Addr())
	require.NoError(t, err)
	t.Cleanup(locks.Close)
	return server, locks
}

func locksOf(t *testing.T, server *redistest.Server) []string {
	t.Helper()
	keys, err := server.Do("KEYS", "*"+lockName+"*").AsStrSlice()
	require.NoError(t, err)
	return keys
}
