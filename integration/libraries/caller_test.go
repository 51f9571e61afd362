package libraries_test

import (
	"context"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// chargeOrder runs charge under both locks.
func chargeOrder(
	ctx context.Context, keeper *renewer.Keeper, old *redsync.Redsync, id string,
	charge func(context.Context) error,
) error {
	return lockmw.Run(ctx, keeper, lockmw.Key("order", id), func(ctx context.Context) error {
		return underRedsync(ctx, old.NewMutex("order:"+id), 8*time.Second, charge)
	})
}

func TestCaller(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	keeper, closeKeeper, err := newKeeper(server.Addr())
	require.NoError(t, err)
	defer closeKeeper()
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { assert.NoError(t, client.Close()) }()
	old := redsync.New(goredis.NewPool(client))
	require.NoError(t, chargeOrder(t.Context(), keeper, old, "42", func(context.Context) error {
		assert.ElementsMatch(t, []string{"order:42", "lockbeat:{order:42}"}, locksOf(t, server))
		return nil
	}))
	assert.Empty(t, locksOf(t, server))
}

// A lock that a user has written with SET NX PX, and redislock's, exclude each other.
func TestSetNX(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { assert.NoError(t, client.Close()) }()
	set := func() string {
		return client.Do(t.Context(), "SET", lockName, "token", "NX", "PX", 60_000).String()
	}
	require.Contains(t, set(), "OK")
	under := func(w work) error {
		return underRedislock(t.Context(), redislock.New(client), lockName, time.Second, w)
	}
	require.Error(t, under(func(context.Context) error { panic("it must not run") }))
	require.NoError(t, client.Del(t.Context(), lockName).Err())
	require.NoError(t, under(func(context.Context) error {
		assert.NotContains(t, set(), "OK")
		return nil
	}))
	assert.Contains(t, set(), "OK")
}
