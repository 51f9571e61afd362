package asynqmw_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// locksApart is an env whose locks are on a server of their own.
func locksApart(t *testing.T) (queue, locks *env, server *redistest.Server) {
	server = redistest.Start(t)
	return onEmbedded(t), newEnv(t, server.ClientOption()), server
}

func TestStoreDown(t *testing.T) {
	t.Parallel()
	e, locks, server := locksApart(t)
	k := locks.keeper()
	server.Kill()
	var runs atomic.Int64
	e.serve(asynqmw.Handle(k, byUser, func(context.Context, order) error {
		runs.Add(1)
		return nil
	}, retriesIn))
	spare, last := e.enqueue("u1"), e.enqueue("u2", asynq.MaxRetry(0))
	info := e.awaitRefused(spare)
	assert.Zero(t, info.Retried)
	assert.Contains(t, info.LastErr, "lock store unavailable")
	assert.NotContains(t, info.LastErr, "held")
	e.awaitState(last, asynq.TaskStateActive)
	assert.Zero(t, runs.Load())

	require.NoError(t, server.Restart())
	for _, id := range []string{spare, last} {
		assert.Zero(t, e.awaitState(id, asynq.TaskStateCompleted).Retried)
	}
	assert.EqualValues(t, 2, runs.Load())
}

// The store takes longer to fail than the task has. asynq would time the task out, and count that.
func TestStoreSilent(t *testing.T) {
	t.Parallel()
	const timeout = 8 * time.Second
	e, locks, server := locksApart(t)
	k := locks.keeper(func(cfg *renewer.Config) { cfg.TTL = time.Minute })
	require.Greater(t, k.Config().RequestTimeout, timeout)
	var runs atomic.Int64
	e.serve(asynqmw.Handle(k, byUser, func(context.Context, order) error {
		runs.Add(1)
		return nil
	}, retriesIn))
	warm := e.enqueue("u0")
	e.awaitState(warm, asynq.TaskStateCompleted)

	require.NoError(t, server.Stop())
	id := e.enqueue("u1", asynq.Timeout(timeout))
	info := e.awaitRefused(id)
	assert.Zero(t, info.Retried)
	assert.Contains(t, info.LastErr, "the store has not answered in time")
	assert.EqualValues(t, 1, runs.Load())

	require.NoError(t, server.Cont())
	assert.Zero(t, e.awaitState(id, asynq.TaskStateCompleted).Retried)
	assert.EqualValues(t, 2, runs.Load())
}
