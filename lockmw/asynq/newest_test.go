package asynqmw_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

// errDisk is a failure of the work's own.
var errDisk = errors.New("the disk is full")

// What asynq is told of a task that was replaced while it ran.
func TestOutcomeOfAReplacedTask(t *testing.T) {
	t.Parallel()
	type options = []option
	replace, latest := lockmw.Replace(), lockmw.Latest()
	for name, c := range map[string]struct {
		opts    options
		returns func(ctx context.Context, k *renewer.Keeper) error
		is      []error // nothing: it is done
		not     error
	}{
		"no error":            {options{replace}, stops(nil), nil, nil},
		"no error, Strict":    {options{replace, lockmw.Strict()}, stops(nil), nil, nil},
		"its context's":       {options{replace}, stops(context.Canceled), nil, nil},
		"the loss":            {options{latest}, stops(renewer.ErrLost), nil, nil},
		"one of its own":      {options{replace}, stops(errDisk), []error{errDisk, renewer.ErrReplaced, asynq.RevokeTask}, asynq.SkipRetry},
		"before it has heard": {options{latest}, after(errDisk), []error{errDisk}, asynq.RevokeTask},
		"no such handler":     {nil, stops(context.Canceled), []error{renewer.ErrReplaced}, asynq.RevokeTask},
		"a lock of its own":   {options{replace}, within, []error{renewer.ErrReplaced}, asynq.RevokeTask},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := memory.New()
				here := newKeeper(t, s, renewer.Config{TTL: renewer.DefaultTTL, Node: "here"})
				there := newKeeper(t, s, renewer.Config{TTL: renewer.DefaultTTL, Node: "there"})
				h := handle(here, byUser, func(ctx context.Context, _ order) error {
					return c.returns(ctx, here)
				}, c.opts...)
				told := make(chan error, 1)
				go func() { told <- h.ProcessTask(t.Context(), task(`{"User":"u1"}`)) }()
				synctest.Wait()
				_, err := lockmw.Do(t.Context(), there, "u1",
					func(context.Context) (int, error) { return 0, nil }, lockmw.Replace())
				require.NoError(t, err)
				err = <-told
				if c.is == nil {
					require.NoError(t, err)
				}
				for _, want := range c.is {
					require.ErrorIs(t, err, want)
				}
				if c.not != nil {
					require.NotErrorIs(t, err, c.not)
				}
			})
		})
	}
}

// stops is work that returns an error when its context ends.
func stops(own error) func(context.Context, *renewer.Keeper) error {
	return func(ctx context.Context, _ *renewer.Keeper) error {
		<-ctx.Done()
		return own
	}
}

// after is work that returns an error before it has heard of anything.
func after(own error) func(context.Context, *renewer.Keeper) error {
	return func(context.Context, *renewer.Keeper) error {
		<-time.After(time.Second / 2)
		return own
	}
}

// within is work that is replaced in a lock of its own, and holds the task's all the time.
func within(ctx context.Context, k *renewer.Keeper) error {
	_, err := lockmw.Do(ctx, k, "u1", func(ctx context.Context) (int, error) {
		return 0, stops(context.Canceled)(ctx, k)
	})
	return err
}

// Without a turn in the time that it may wait the newest task goes back, uncounted; on its last
// attempt it waits for as long as it may.
func TestTheNewestTaskWaitsInVain(t *testing.T) {
	t.Parallel()
	const eighth = 10 * time.Second
	for name, c := range map[string]struct {
		opts  []option
		waits time.Duration
	}{
		"by default":   {[]option{lockmw.Latest()}, eighth},
		"Wait":         {[]option{lockmw.Wait(2 * time.Second), lockmw.Latest()}, 2 * time.Second},
		"Wait after":   {[]option{lockmw.Latest(), lockmw.Wait(2 * time.Second)}, 2 * time.Second},
		"Wait is long": {[]option{lockmw.Latest(), lockmw.Wait(time.Hour)}, eighth},
		"Wait(0) last": {[]option{lockmw.Latest(), lockmw.Refuse()}, 0},
		"after Skip":   {[]option{lockmw.Skip(), lockmw.Latest()}, eighth},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				k := newKeeper(t, memory.New(), renewer.Config{TTL: renewer.DefaultTTL})
				release := hold(t, k, "u1")
				ctx, cancel := context.WithTimeout(t.Context(), 8*eighth)
				defer cancel()
				begun := time.Now()
				err := handle(k, byUser, nothing, c.opts...).ProcessTask(ctx,
					task(`{"User":"u1"}`))
				e, refused := errors.AsType[*asynqmw.NotRunError](err)
				require.True(t, refused, "%v", err)
				assert.ErrorIs(t, e, renewer.ErrBusy)
				assert.False(t, isFailure(err))
				assert.Equal(t, c.waits, time.Since(begun))
				release()
			})
		})
	}
}

// The newest task has no place in line, behind others that came before it.
func TestTheNewestTaskStandsInNoLine(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	release := hold(t, e.keeper(), "u1")
	defer release()
	e.serve(handle(e.keeper(), byUser, nothing, lockmw.Latest(),
		lockmw.Wait(10*time.Millisecond), inLine(e.redis())), workers(2))
	info := e.awaitRefused(e.enqueue("u1"))
	assert.Contains(t, info.LastErr, "lockbeat: task not run, it comes back in about ")
	assert.Zero(t, info.Retried)
}
