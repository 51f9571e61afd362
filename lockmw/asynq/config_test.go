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
	"github.com/lockbeat/lockbeat/renewer"
)

var (
	errReal   = errors.New("no luck")
	errNotRun = errors.Join(errors.New("seen on the way"),
		&asynqmw.NotRunError{Err: renewer.ErrHeld, RetryIn: 3 * time.Second})
	errCounts = &asynqmw.NotRunError{Err: renewer.ErrHeld, Counted: true}
	errOver   = &asynqmw.NotRunError{Err: renewer.ErrHeld, Archived: true}
)

func TestConfigureKeepsWhatIsThere(t *testing.T) {
	t.Parallel()
	failures, handled := 0, []error{}
	cfg := asynqmw.Configure(asynqmw.Configure(asynq.Config{
		Concurrency: 7, TaskCheckInterval: time.Minute, DelayedTaskCheckInterval: time.Hour,
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

	for _, err := range []error{errNotRun, errReal, errOver, errCounts} {
		cfg.ErrorHandler.HandleError(t.Context(), nil, err)
	}
	assert.Equal(t, []error{errReal, errOver, errCounts}, handled)
}

func TestConfigureKeepsTheDefaults(t *testing.T) {
	t.Parallel()
	cfg := asynqmw.Configure(asynq.Config{})
	assert.Equal(t, asynqmw.DefaultTaskCheckInterval, cfg.TaskCheckInterval)
	assert.Equal(t, asynqmw.DefaultDelayedTaskCheckInterval, cfg.DelayedTaskCheckInterval)
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
	cause := &renewer.Error{Op: "acquire", Name: "order:u1", Kind: renewer.ErrHeld}
	for want, err := range map[string]*asynqmw.NotRunError{
		`lockbeat: task not run, it comes back in 1.5s, with no attempt used up: acquire ` +
			`"order:u1": held by another owner`: {
			Err: cause, RetryIn: 1500 * time.Millisecond,
		},
		`lockbeat: task not run, it comes back in 1.5s to 6.515s, with no attempt used up: ` +
			`acquire "order:u1": held by another owner`: {
			Err: cause, RetryIn: 1500 * time.Millisecond, Late: 5015 * time.Millisecond,
		},
		"lockbeat: task not run on its last attempt, since others wait in their workers' slots " +
			"already (asynqmw.Requeue would bring it back): " +
			`acquire "order:u1": held by another owner`: {
			Err: cause, Archived: true, Crowded: true,
		},
		`lockbeat: task not run, it goes on as X in 1.5s: acquire "order:u1": held by another ` +
			`owner`: {
			Err: cause, RetryIn: 1500 * time.Millisecond, Copy: "X",
		},
		`lockbeat: task not run, and its last attempt may wait no longer: acquire "order:u1": held by ` +
			`another owner`: {
			Err: cause, Archived: true,
		},
		"lockbeat: task not run, and its last attempt may wait no longer; refusals before may have " +
			"used up the others: " +
			"the server's asynq.Config did not go through asynqmw.Configure: " +
			`acquire "order:u1": held by another owner`: {
			Err: cause, Archived: true,
			Counted: true,
		},
		"lockbeat: task not run, and an attempt is used up: the server's asynq.Config did not go " +
			"through asynqmw.Configure: " +
			`acquire "order:u1": held by another owner`: {
			Err: cause, RetryIn: time.Second,
			Counted: true,
		},
	} {
		require.EqualError(t, err, want)
		require.ErrorIs(t, err, renewer.ErrHeld)
		assert.Equal(t, err.Copy != "", errors.Is(err, asynq.RevokeTask))
		assert.Equal(t, err.Crowded, errors.Is(err, renewer.ErrQueueFull))
		assert.Equal(t, err.Counted, errors.Is(err, asynqmw.ErrNotConfigured))
	}
}

func TestWhatCannotBeMeantPanics(t *testing.T) {
	t.Parallel()
	e := onEmbedded(t)
	k, _ := scripted(t)
	run := func(context.Context, order) error { return nil }
	raw := func(*asynq.Task) (string, error) { return "u1", nil }
	for want, f := range map[string]func(){
		"asynqmw.Handle needs a keeper":       func() { asynqmw.Handle(nil, byUser, run) },
		"a key function and a function":       func() { asynqmw.Handle(k, nil, run) },
		"Handle needs a keeper (renewer.New)": func() { asynqmw.Handle(k, byUser, nil) },
		"asynqmw.Middleware needs a keeper":   func() { asynqmw.Middleware(nil, raw) },
		"(renewer.New) and a key function":    func() { asynqmw.Middleware(k, nil) },
		"asynqmw.Middleware needs a handler":  func() { asynqmw.Middleware(k, raw)(nil) },
		"asynqmw.Wait(-1s) can't be meant":    func() { asynqmw.Wait(-time.Second) },
		"asynqmw.RetryIn(0s) can't be meant":  func() { asynqmw.RetryIn(0) },
		"asynqmw.RetryIn(-1s) can't be meant": func() { asynqmw.RetryIn(-time.Second) },
		"asynqmw.Codec needs a function":      func() { asynqmw.Codec(nil) },
		"asynqmw.Requeue needs the client":    func() { asynqmw.Requeue(nil) },
		"Requeue can't take asynq.Unique": func() {
			asynqmw.Requeue(e.client, asynq.Unique(time.Hour))
		},
		`Requeue can't take Queue("low")`: func() {
			asynqmw.Requeue(e.client, asynq.Retention(time.Minute), asynq.Queue("low"))
		},
		"Requeue can't take MaxRetry(3)": func() {
			asynqmw.Requeue(e.client, asynq.MaxRetry(3))
		},
		"Requeue can't take Timeout(1m0s)": func() {
			asynqmw.Requeue(e.client, asynq.Timeout(time.Minute))
		},
		"Requeue can't take Deadline(": func() {
			asynqmw.Requeue(e.client, asynq.Deadline(time.Now()))
		},
		"Requeue can't take ProcessIn(1s)": func() {
			asynqmw.Requeue(e.client, asynq.ProcessIn(time.Second))
		},
		`Requeue can't take TaskID("x"): the copy`: func() {
			asynqmw.Requeue(e.client, asynq.TaskID("x"))
		},
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
