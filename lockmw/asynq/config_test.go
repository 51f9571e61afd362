package asynqmw_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/lockmw/jobs"
	"github.com/lockbeat/lockbeat/renewer"
)

var (
	errReal   = errors.New("no luck")
	errNotRun = errors.Join(errors.New("seen on the way"),
		&asynqmw.NotRunError{Result: jobs.Result{Err: renewer.ErrBusy, RetryIn: 3 * time.Second}})
	errOver = &asynqmw.NotRunError{Result: jobs.Result{
		Outcome: jobs.OutcomeFailed, Err: renewer.ErrBusy,
	}}
)

func TestConfigureKeepsWhatIsThere(t *testing.T) {
	t.Parallel()
	type key struct{}
	failures, handled := 0, []error{}
	cfg := configure(configure(asynq.Config{
		Concurrency: 7, TaskCheckInterval: time.Minute, DelayedTaskCheckInterval: time.Hour,
		BaseContext: func() context.Context { return context.WithValue(t.Context(), key{}, "x") },
		IsFailure: func(err error) bool {
			failures++
			return !errors.Is(err, errReal)
		},
		RetryDelayFunc: func(n int, _ error, _ *asynq.Task) time.Duration {
			return time.Duration(n) * time.Hour
		},
		ErrorHandler: asynq.ErrorHandlerFunc(func(_ context.Context, _ *asynq.Task, err error) {
			handled = append(handled, err)
		}),
	}))
	assert.Equal(t, "x", cfg.BaseContext().Value(key{}))
	assert.Equal(t, 7, cfg.Concurrency)
	assert.Equal(t, time.Minute, cfg.TaskCheckInterval)
	assert.Equal(t, time.Hour, cfg.DelayedTaskCheckInterval)

	assert.False(t, cfg.IsFailure(errNotRun))
	assert.Zero(t, failures)
	assert.False(t, cfg.IsFailure(errReal))
	assert.True(t, cfg.IsFailure(errors.New("other")))
	assert.Equal(t, 2, failures)

	assert.Equal(t, 3*time.Second, cfg.RetryDelayFunc(5, errNotRun, nil))
	assert.Equal(t, 5*time.Hour, cfg.RetryDelayFunc(5, errReal, nil))

	for _, err := range []error{errNotRun, errReal, errOver} {
		cfg.ErrorHandler.HandleError(t.Context(), nil, err)
	}
	assert.Equal(t, []error{errReal, errOver}, handled)
}

func TestConfigureKeepsTheDefaults(t *testing.T) {
	t.Parallel()
	cfg := configure(asynq.Config{})
	assert.Equal(t, 10*time.Millisecond, cfg.TaskCheckInterval)
	assert.Equal(t, time.Second, cfg.DelayedTaskCheckInterval)
	assert.True(t, cfg.IsFailure(errReal))
	assert.False(t, cfg.IsFailure(nil))
	assert.False(t, cfg.IsFailure(errNotRun))
	// n^4 + 15 s and more
	assert.GreaterOrEqual(t, cfg.RetryDelayFunc(2, errReal, nil), 31*time.Second)
	assert.Equal(t, 3*time.Second, cfg.RetryDelayFunc(2, errNotRun, nil))
	for _, err := range []error{errNotRun, errReal} {
		cfg.ErrorHandler.HandleError(t.Context(), nil, err)
	}
}

func TestNotRunError(t *testing.T) {
	t.Parallel()
	cause := &renewer.Error{Op: "acquire", Name: "order:u1", Kind: renewer.ErrBusy}
	const about, line = 1500 * time.Millisecond, 15 * time.Second
	for want, err := range map[string]*asynqmw.NotRunError{
		", it comes back in about 1.5s, with no attempt used up": {
			Result: jobs.Result{RetryIn: about},
		},
		", it stands in line, and comes back when its turn is near, or in about 15s, with no " +
			"attempt used up": {Result: jobs.Result{RetryIn: line, InLine: true}},
		", it goes on as X in about 1.5s": {Result: jobs.Result{RetryIn: about, Copy: "X"}},
		", it goes on as X when its turn is near, or in about 15s": {
			Result: jobs.Result{RetryIn: line, InLine: true, Copy: "X"},
		},
		", and its last attempt may wait no longer": {
			Result: jobs.Result{Outcome: jobs.OutcomeFailed},
		},
		" on its last attempt, since others wait in their workers already (a copy would bring it " +
			"back: asynqmw.NoCopies)": {
			Result: jobs.Result{Outcome: jobs.OutcomeFailed, Crowded: true},
		},
	} {
		err.Err, err.Mark = cause, "[lock_hash=1]"
		require.EqualError(t, err, "lockbeat: task not run"+want+
			`: acquire "order:u1": held by another owner [lock_hash=1]`)
		assert.NotContains(t, renewer.ErrorText(err), "lock_hash", "there may be a secret for logs")
		require.ErrorIs(t, err, renewer.ErrBusy)
		assert.Equal(t, err.Copy != "", errors.Is(err, asynq.RevokeTask))
		assert.Equal(t, err.Crowded, errors.Is(err, renewer.ErrQueueFull))
	}
}

func TestWhatCannotBeMeantPanics(t *testing.T) {
	t.Parallel()
	k, _ := scripted(t)
	l := asynqmw.ForTest(k)
	raw := func(*asynq.Task) string { return "u1" }
	for want, f := range map[string]func(){
		"Configure needs a keeper (renewer.New) and": func() {
			asynqmw.Configure(nil, asynq.RedisClientOpt{}, asynq.Config{})
		},
		"the server's Redis, such as an asynq.RedisClientOpt": func() {
			asynqmw.Configure(k, nil, asynq.Config{})
		},
		"asynqmw.Wrap and Middleware need locks (asynqmw.Configure)": func() {
			asynqmw.Wrap(nil, byUser, nothing)
		},
		"asynqmw.Middleware needs a handler": func() { asynqmw.Middleware(l, raw)(nil) },
		"needs a function that decodes":      func() { asynqmw.WrapWith(l, nil, byUser, nothing) },
		"need locks (asynqmw.Configure), a key function and a function": func() {
			asynqmw.Middleware[string](l, nil)
		},
		"a function": func() { asynqmw.Wrap(l, byUser, nil) },
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			defer func() {
				message, _ := recover().(string)
				assert.Contains(t, message, want)
				assert.Contains(t, message, "lockbeat: ")
			}()
			f()
		})
	}
}
