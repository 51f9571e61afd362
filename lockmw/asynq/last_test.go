package asynqmw_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/renewer"
)

// retriesIn is short enough for a test. asynq counts in seconds, so it mostly means at once.
var retriesIn = asynqmw.RetryIn(50 * time.Millisecond)

func TestLastAttemptAfterFailuresWaits(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, e *env) {
		k, rival := e.keeper(), e.keeper()
		var runs atomic.Int64
		failed := make(chan struct{})
		e.serve(asynqmw.Handle(k, byUser, func(context.Context, order) error {
			switch runs.Add(1) {
			case 1:
				return errors.New("no luck")
			case 2:
				close(failed)
				return errors.New("no luck again")
			default:
				return nil
			}
			// the last attempt waits in line: it does not come back then
		}, asynqmw.RetryIn(time.Hour)), func(cfg *asynq.Config) {
			cfg.RetryDelayFunc = func(n int, _ error, _ *asynq.Task) time.Duration {
				return time.Duration(n) * time.Hour // the first at once, the second when called
			}
		})
		id := e.enqueue("u1", asynq.MaxRetry(2))
		<-failed
		release := hold(t, rival, "u1")
		e.awaitState(id, asynq.TaskStateRetry)
		require.NoError(t, e.inspector.RunTask("default", id))
		info := e.await(id, func(i *asynq.TaskInfo) bool {
			return i.Retried == 2 && i.State == asynq.TaskStateActive
		})
		assert.Equal(t, "no luck again", info.LastErr)
		release()
		info = e.awaitState(id, asynq.TaskStateCompleted)
		assert.Equal(t, 2, info.Retried)
		assert.EqualValues(t, 3, runs.Load())
	})
}

func TestLastAttemptWithoutTimeIsArchivedAloud(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, e *env) {
		k := e.keeper()
		release := hold(t, e.keeper(), "u1")
		defer release()
		heard := make(chan error, 1)
		e.serve(asynqmw.Handle(k, byUser, func(context.Context, order) error {
			t.Error("it ran")
			return nil
		}), func(cfg *asynq.Config) {
			cfg.ErrorHandler = asynq.ErrorHandlerFunc(func(_ context.Context, _ *asynq.Task,
				err error,
			) {
				heard <- err
			})
		})
		info := e.awaitState(e.enqueue("u1", asynq.MaxRetry(0), asynq.Timeout(8*time.Second)),
			asynq.TaskStateArchived)
		require.Contains(t, info.LastErr,
			"lockbeat: task not run, and its last attempt may wait no longer: ")
		err := <-heard
		require.ErrorIs(t, err, renewer.ErrHeld)
		var notRun *asynqmw.NotRunError
		require.ErrorAs(t, err, &notRun)
		assert.True(t, notRun.Archived)
		assert.Zero(t, notRun.RetryIn)
	})
}

func TestKeeperShutDownBeforeTheServer(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, e *env) {
		var runs atomic.Int64
		handler := func(k *renewer.Keeper) asynq.Handler {
			return asynqmw.Handle(k, byUser, func(context.Context, order) error {
				runs.Add(1)
				return nil
			}, retriesIn)
		}
		dead, alive := e.keeper(), e.keeper()
		require.NoError(t, dead.Shutdown(t.Context()))
		server := e.serve(handler(dead), func(cfg *asynq.Config) {
			cfg.ShutdownTimeout = 100 * time.Millisecond
		})
		spare, last := e.enqueue("u1"), e.enqueue("u2", asynq.MaxRetry(0))
		info := e.awaitRefused(spare)
		assert.Contains(t, info.LastErr, "keeper is shut down")
		e.awaitState(last, asynq.TaskStateActive)
		server.Shutdown()
		info = e.await(last, func(*asynq.TaskInfo) bool { return true })
		assert.Equal(t, asynq.TaskStatePending, info.State, "put back by the server's shutdown")

		assert.Zero(t, runs.Load())
		e.serve(handler(alive))
		for _, id := range []string{spare, last} {
			assert.Zero(t, e.awaitState(id, asynq.TaskStateCompleted).Retried)
		}
	})
}
