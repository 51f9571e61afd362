package asynqmw_test

import (
	"cmp"
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
	"github.com/lockbeat/lockbeat/lockmw/jobs"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

// errDisk is a failure of the work's own.
var errDisk = errors.New("the disk is full")

// What asynq is told of a task that was replaced while it ran.
func TestOutcomeOfAReplacedTask(t *testing.T) {
	t.Parallel()
	type options = []jobs.Option
	replace, latest := lockmw.Replace(), lockmw.Latest()
	for name, c := range map[string]struct {
		opts    options
		returns func(ctx context.Context, k *renewer.Keeper) error
		is      []error // nothing: it is done
		not     error
		other   string // the lock that is taken away; "": the task's
	}{
		"no error":            {options{replace}, stops(nil), nil, nil, ""},
		"no error, Strict":    {options{replace, lockmw.Strict()}, stops(nil), nil, nil, ""},
		"its context's":       {options{replace}, stops(context.Canceled), nil, nil, ""},
		"the loss":            {options{latest}, stops(renewer.ErrLost), nil, nil, ""},
		"one of its own":      {options{replace}, stops(errDisk), []error{errDisk, renewer.ErrReplaced, asynq.RevokeTask}, asynq.SkipRetry, ""},
		"before it has heard": {options{latest}, after(errDisk), []error{errDisk}, asynq.RevokeTask, ""},
		"no such handler":     {nil, stops(context.Canceled), []error{renewer.ErrReplaced}, asynq.RevokeTask, ""},
		"a lock of its own":   {options{replace}, within, []error{renewer.ErrReplaced}, asynq.RevokeTask, "inner"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := memory.New()
				here := newKeeper(t, s, renewer.Config{TTL: renewer.DefaultTTL, Node: "here"})
				there := newKeeper(t, s, renewer.Config{TTL: renewer.DefaultTTL, Node: "there"})
				work := func(ctx context.Context, _ order) error { return c.returns(ctx, here) }
				h := asynqmw.Wrap(asynqmw.ForTest(here), byUser, work, c.opts...)
				told := make(chan error, 1)
				go func() { told <- h.ProcessTask(t.Context(), task(`{"User":"u1"}`)) }()
				synctest.Wait()
				err := lockmw.Run(t.Context(), there, cmp.Or(c.other, "order:u1"),
					func(context.Context) error { return nil }, lockmw.Replace())
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

// within is work that is replaced in a lock of its own, and holds the task's
// all the time.
func within(ctx context.Context, k *renewer.Keeper) error {
	return lockmw.Run(ctx, k, "inner", func(ctx context.Context) error {
		return stops(context.Canceled)(ctx, k)
	})
}

// Without a turn in the time that it may wait the newest task goes back,
// uncounted; on its last attempt it waits for as long as it may.
func TestTheNewestTaskWaitsInVain(t *testing.T) {
	t.Parallel()
	const eighth = 10 * time.Second
	for name, c := range map[string]struct {
		opts  []jobs.Option
		waits time.Duration
	}{
		"by default":   {[]jobs.Option{lockmw.Latest()}, eighth},
		"Wait":         {[]jobs.Option{lockmw.Wait(2 * time.Second), lockmw.Latest()}, 2 * time.Second},
		"Wait after":   {[]jobs.Option{lockmw.Latest(), lockmw.Wait(2 * time.Second)}, 2 * time.Second},
		"Wait is long": {[]jobs.Option{lockmw.Latest(), lockmw.Wait(time.Hour)}, eighth},
		"Refuse last":  {[]jobs.Option{lockmw.Latest(), lockmw.Refuse()}, 0},
		"after Skip":   {[]jobs.Option{lockmw.Skip(), lockmw.Latest()}, eighth},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				k := newKeeper(t, memory.New(), renewer.Config{TTL: renewer.DefaultTTL})
				release := hold(t, k, "u1")
				ctx, cancel := context.WithTimeout(t.Context(), 8*eighth)
				defer cancel()
				begun := time.Now()
				err := asynqmw.Wrap(asynqmw.ForTest(k), byUser, nothing, c.opts...).ProcessTask(ctx,
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
	e.serve(e.keeper(), wrap(byUser, nothing, lockmw.Latest(), lockmw.Wait(10*time.Millisecond)),
		workers(2))
	info := e.awaitRefused(e.enqueue("u1"))
	assert.Contains(t, info.LastErr, "lockbeat: task not run, it comes back in about ")
	assert.Zero(t, info.Retried)
}
