package renewer_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// outageOf makes a keeper on a store with shards.
func outageOf(t *testing.T) (*renewer.Keeper, *shardedStore) {
	t.Helper()
	store := newShardedStore()
	k, err := renewer.New(store, renewer.Config{TTL: 15 * time.Second, Log: renewer.Silent})
	require.NoError(t, err)
	t.Cleanup(func() { _ = k.Shutdown(t.Context()) })
	return k, store
}

func try(t *testing.T, k *renewer.Keeper, name string) error {
	t.Helper()
	l, err := k.TryAcquire(t.Context(), name)
	if err != nil {
		return err
	}
	return l.Release(t.Context())
}

func TestAnOutageBeginsWithWhatFailsFirstAndEndsWithAnAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, store := outageOf(t)
		assert.Zero(t, k.Outage("0:a"), "nobody has asked")
		store.Default(script.Acquire, script.Fail(errors.New("connection refused")))
		require.ErrorIs(t, try(t, k, "0:a"), renewer.ErrUnavailable)
		assert.Zero(t, k.Outage("0:a"), "it may be a fail-over")
		<-time.After(time.Minute)
		assert.Equal(t, time.Minute, k.Outage("0:a"))
		assert.Equal(t, time.Minute, k.Outage(""))
		assert.Zero(t, k.Outage("1:a"), "another shard, which nobody has asked")
		store.Default(script.Acquire, script.Pass())
		<-time.After(time.Second)
		assert.Zero(t, k.Outage("0:a"))
		require.NoError(t, try(t, k, "0:b"))
	})
}

// What a request hears that ran out of time says nothing if others were answered meanwhile.
func TestRequestsThatFailBesideOthersAreNoOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, store := outageOf(t)
		store.Script(script.Acquire, script.Hang(), script.Pass())
		failed := make(chan error)
		go func() { failed <- try(t, k, "0:slow") }()
		synctest.Wait()
		require.NoError(t, try(t, k, "0:a"))
		require.ErrorIs(t, <-failed, renewer.ErrUnavailable)
		<-time.After(time.Minute)
		assert.Zero(t, k.Outage("0:a"))
	})
}

// A server that refuses is up.
func TestRefusalsAreNoOutage(t *testing.T) {
	t.Parallel()
	for _, up := range []error{renewer.ErrRejected, renewer.ErrOverloaded} {
		synctest.Test(t, func(t *testing.T) {
			k, store := outageOf(t)
			store.Default(script.Acquire, script.Fail(fmt.Errorf("the server says: %w", up)))
			require.ErrorIs(t, try(t, k, "0:a"), up)
			for range 20 {
				<-time.After(time.Second)
				require.ErrorIs(t, try(t, k, "0:a"), up)
			}
			assert.Zero(t, k.Outage("0:a"))
		})
	}
}

func TestHeartbeatsTellOfAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, store := outageOf(t)
		l, err := k.TryAcquire(t.Context(), "0:a")
		require.NoError(t, err)
		for _, op := range []script.Op{script.Renew, script.Acquire} {
			store.Default(op, script.Fail(errors.New("connection refused")))
		}
		<-l.Context().Done()
		assert.Greater(t, k.Outage("0:b"), k.Config().FailOver)
		store.Default(script.Renew, script.Pass())
		_ = l.Release(t.Context())
	})
}

// Nor is one that answers heartbeats by saying that it is busy.
func TestHeartbeatsThatAreRefusedAreNoOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, store := outageOf(t)
		l, err := k.TryAcquire(t.Context(), "0:a")
		require.NoError(t, err)
		store.Default(script.Renew,
			script.Fail(fmt.Errorf("busy with a script: %w", renewer.ErrOverloaded)))
		<-l.Context().Done()
		assert.Zero(t, k.Outage("0:b"))
		_ = l.Release(t.Context())
	})
}

// A caller who gives up tells nothing of the store.
func TestCallersWhoLeaveAreNoOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, store := outageOf(t)
		store.Default(script.Acquire, script.Hang())
		for range 20 {
			_, err := k.Acquire(endsIn(t, time.Millisecond), "0:a")
			require.Error(t, err)
			<-time.After(time.Second)
		}
		assert.Zero(t, k.Outage("0:a"))
	})
}

// endsIn returns a context that ends in d.
func endsIn(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
