package contention_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/lockmw"
	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/lockmw/jobs"
	"github.com/lockbeat/lockbeat/renewer"
)

// openAsynq goes by asynq's mux. That its server does with these
// errors what they mean is shown in package asynqmw.
func openAsynq(t *testing.T, k *renewer.Keeper, wait time.Duration, do work) caller {
	mux := asynq.NewServeMux()
	mux.Use(recoverTask)
	key := func(task *asynq.Task) lockmw.Set { return lockOf(string(task.Payload())) }
	var policy jobs.Option
	switch wait {
	case newestWins:
		policy = lockmw.Replace()
	case newestWaits:
		policy = lockmw.Latest()
	case 0:
		policy = lockmw.Refuse()
	default:
		policy = lockmw.Wait(wait)
	}
	mux.Handle("transfer", asynqmw.Middleware(asynqmw.ForTest(k), key, policy)(
		asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error { return do(ctx) })))
	return func(ctx context.Context, key string) (outcome, string) {
		err := mux.ProcessTask(ctx, asynq.NewTask("transfer", []byte(key)))
		return outcomeOfTask(t, ctx, k, err), fmt.Sprint(err)
	}
}

var errPanicked = errors.New("panicked")

// recoverTask does what asynq's server does around its handler.
func recoverTask(next asynq.Handler) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) (err error) {
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("%w: %v", errPanicked, r)
			}
		}()
		return next.ProcessTask(ctx, task)
	})
}

// isFailure reports whether a server counts an attempt that returned err.
func isFailure(k *renewer.Keeper, err error) bool {
	_, config := asynqmw.Configure(k, asynq.RedisClientOpt{}, asynq.Config{})
	return config.IsFailure(err)
}

func outcomeOfTask(t *testing.T, ctx context.Context, k *renewer.Keeper, err error) outcome {
	notRun, refused := errors.AsType[*asynqmw.NotRunError](err)
	switch {
	case err == nil:
		return done
	case errors.Is(err, renewer.ErrLost):
		return lost
	case refused:
		assert.False(t, isFailure(k, err))
		assert.Positive(t, notRun.RetryIn)
		if why, ok := errors.AsType[*renewer.Error](err); ok && why.Limit > 0 {
			return full
		}
		if errors.Is(err, renewer.ErrBusy) {
			return busy
		}
		assert.ErrorIs(t, err, renewer.ErrUnavailable)
		return unavailable
	case errors.Is(err, asynq.SkipRetry):
		assert.ErrorIs(t, err, renewer.ErrName)
		return badKey
	case errors.Is(err, errPanicked):
		return broken
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return cancelled
	default:
		return failed
	}
}
