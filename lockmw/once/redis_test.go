package once_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
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

// onServer makes a keeper on a server.
func onServer(addr string, ttl time.Duration) (*renewer.Keeper, func(), error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:       []string{addr},
		ForceSingleClient: true, DisableCache: true,
	})
	if err != nil {
		return nil, nil, err
	}
	store, err := redisstore.New(client)
	if err != nil {
		client.Close()
		return nil, nil, err
	}
	k, err := renewer.New(store, renewer.Config{TTL: ttl})
	return k, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		_ = k.Shutdown(ctx)
		store.Close()
		client.Close()
	}, err
}

// requireTTLs fails if a key would stay for ever.
func requireTTLs(t *testing.T, server *redistest.Server) {
	t.Helper()
	const eternal = `
		local n = 0
		for _, key in ipairs(redis.call('KEYS', '*')) do
			n = n + (redis.call('PTTL', key) == -1 and 1 or 0)
		end
		return n`
	n, err := server.Do("EVAL", eternal, "0").AsInt64()
	require.NoError(t, err)
	require.Zero(t, n, "keys without a TTL")
	require.Eventually(t, func() bool {
		size, err := server.DBSize()
		return err == nil && size <= 2
	}, 30*time.Second, 20*time.Millisecond,
		"a fence counter, and the record while it lives; what a lost answer has left lapses")
}
