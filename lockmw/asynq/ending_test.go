package asynqmw_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/renewer"
)

func TestHandlerThatIgnoresItsTimeoutNeverOverlapsItsRetry(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, e *env) {
		var g gauge
		proceed := make(chan struct{})
		end := sync.OnceFunc(func() { close(proceed) })
		defer end()
		for range 2 {
			e.serve(asynqmw.Handle(e.keeper(), byUser, func(context.Context, order) error {
				g.enter()
				defer g.leave()
				if g.runs.Load() == 1 {
					<-proceed
				}
				return nil
			}, retriesIn))
		}
		id := e.enqueue("u1", asynq.Timeout(4*time.Second))
		info := e.await(id, func(i *asynq.TaskInfo) bool {
			return i.Retried > 0 && i.LastErr != "context deadline exceeded"
		})
		assert.Contains(t, info.LastErr, "held by another owner",
			"the retry while the first run goes on")
		assert.EqualValues(t, 1, g.running.Load())
		end()
		info = e.awaitState(id, asynq.TaskStateCompleted)
		assert.Equal(t, 1, info.Retried, "the time-out, and nothing else")
		assert.EqualValues(t, 2, g.runs.Load())
		assert.Zero(t, g.overlaps.Load())
	})
}

func TestKeyIsFreedWhenTheHandlerEnds(t *testing.T) {
	t.Parallel()
	const atOnce, rounds = 300 * time.Millisecond, 5
	for name, end := range map[string]func(){
		"by a panic": func() { panic("boom") },
		"by Goexit":  runtime.Goexit,
		"as usual":   func() {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			everywhere(t, func(t *testing.T, e *env) {
				k, rival := e.keeper(), e.keeper()
				begun, proceed, ended := make(chan struct{}), make(chan struct{}), make(
					chan time.Time,
				)
				e.serve(asynqmw.Handle(k, byUser, func(context.Context, order) error {
					begun <- struct{}{}
					<-proceed
					ended <- time.Now()
					end()
					return nil
					// asynq waits on after a Goexit
				}), func(cfg *asynq.Config) { cfg.ShutdownTimeout = 100 * time.Millisecond })
				var took []time.Duration
				for range rounds {
					id := e.enqueue("u1", asynq.MaxRetry(0))
					<-begun
					_, err := rival.TryAcquire(t.Context(), "order:u1")
					require.ErrorIs(t, err, renewer.ErrHeld)
					got, free := make(chan time.Time), make(chan error, 1)
					go func() {
						_, err := lockmw.Do(t.Context(), rival, "order:u1",
							func(context.Context) (int, error) {
								got <- time.Now()
								return 0, nil
							})
						free <- err
					}()
					proceed <- struct{}{}
					at := <-ended
					took = append(took, (<-got).Sub(at))
					require.NoError(t, <-free)
					if name == "by a panic" {
						assert.Contains(t, e.awaitState(id, asynq.TaskStateArchived).LastErr,
							"boom")
					}
				}
				slices.Sort(took)
				assert.Less(t, took[rounds/2], atOnce,
					"the median of %v; a busy machine may hold up one or two", took)
			})
		})
	}
}

func TestLossIsAFailureOfTheHandler(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		result error
		opts   []asynqmw.HandleOption
		state  asynq.TaskState
	}{
		"joined to its error": {
			result: errors.New("half done"),
			state:  asynq.TaskStateArchived,
		},
		"not when it is done": {state: asynq.TaskStateCompleted},
		"also when done, if strict": {
			opts:  []asynqmw.HandleOption{asynqmw.Strict()},
			state: asynq.TaskStateArchived,
		},
		"SkipRetry stands beside it": {result: asynq.SkipRetry, state: asynq.TaskStateArchived},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			everywhere(t, func(t *testing.T, e *env) {
				k := e.keeper(func(cfg *renewer.Config) { cfg.TTL = 4 * time.Second })
				client, err := rueidis.NewClient(e.option)
				require.NoError(t, err)
				defer client.Close()
				cause, heard := make(chan error, 1), make(chan error, 1)
				e.serve(asynqmw.Handle(k, byUser, func(ctx context.Context, _ order) error {
					if !assert.NoError(t,
						client.Do(ctx,
							client.B().Del().Key("lockbeat:{order:u1}").Build()).Error()) {
						return nil
					}
					<-ctx.Done()
					cause <- context.Cause(ctx)
					return c.result
				}, c.opts...), func(cfg *asynq.Config) {
					cfg.ErrorHandler = asynq.ErrorHandlerFunc(func(_ context.Context, _ *asynq.Task,
						err error,
					) {
						heard <- err
					})
				})
				id := e.enqueue("u1", asynq.MaxRetry(0))
				e.awaitState(id, c.state)
				var lost *renewer.LostError
				require.ErrorAs(t, <-cause, &lost)
				assert.Equal(t, renewer.ReasonTaken, lost.Reason)
				if c.state == asynq.TaskStateArchived {
					err := <-heard
					require.ErrorIs(t, err, renewer.ErrLost)
					require.ErrorIs(t, err, lost)
					if c.result != nil {
						require.ErrorIs(t, err, c.result)
					}
				}
			})
		})
	}
}

// The handler has run, so that the error is its own even though it is a lock's.
func TestErrorOfAnInnerLockIsAFailure(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, e *env) {
		k := e.keeper()
		release := hold(t, e.keeper(), "inner")
		defer release()
		e.serve(asynqmw.Handle(k, byUser, func(ctx context.Context, _ order) error {
			_, err := lockmw.Do(ctx, k, "order:inner", func(context.Context) (int, error) {
				return 0, nil
			}, lockmw.Refuse())
			return err
		}), neverByItself)
		info := e.awaitRefused(e.enqueue("u1"))
		assert.Contains(t, info.LastErr, `"order:inner": held by another owner`)
		assert.NotContains(t, info.LastErr, "not run")
		assert.Equal(t, 1, info.Retried)
	})
}
