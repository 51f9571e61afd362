package jobs_test

import (
	"cmp"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/jobs"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

// replaced runs work as a job under "u1", takes a lock for a newer caller
// meanwhile, and returns what the adapter is told.
func replaced(
	t *testing.T, lock string, work func(context.Context, *renewer.Keeper) error,
	opts ...jobs.Option,
) jobs.Result {
	t.Helper()
	s := memory.New()
	var keepers [2]*renewer.Keeper
	for i := range keepers {
		k, err := renewer.New(s, renewer.Config{TTL: renewer.DefaultTTL})
		require.NoError(t, err)
		defer func() { assert.NoError(t, k.Shutdown(context.Background())) }()
		keepers[i] = k
	}
	run := jobs.Wrap(keepers[0], itself, func(ctx context.Context, _ string) error {
		return work(ctx, keepers[0])
	}, opts...)
	told := make(chan jobs.Result, 1)
	go func() { told <- run(t.Context(), jobs.Delivery{Kind: "export"}, "u1") }()
	synctest.Wait()
	require.NoError(t, lockmw.Run(t.Context(), keepers[1], lock, nothing, lockmw.Replace()))
	return <-told
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

// within is work that is replaced in a lock of its own, and holds the job's all
// the time.
func within(ctx context.Context, k *renewer.Keeper) error {
	return lockmw.Run(ctx, k, "inner", func(ctx context.Context) error {
		return stops(context.Canceled)(ctx, k)
	})
}

// What the adapter is told of a job that was replaced while it ran.
func TestJobThatIsReplaced(t *testing.T) {
	t.Parallel()
	type options = []jobs.Option
	replace, latest := lockmw.Replace(), lockmw.Latest()
	for name, c := range map[string]struct {
		opts  options
		work  func(context.Context, *renewer.Keeper) error
		want  jobs.Outcome
		is    []error // nothing: no error
		other string  // the lock that is taken away; "": the job's
	}{
		"no error":            {options{replace}, stops(nil), jobs.OutcomeDone, nil, ""},
		"no error, Strict":    {options{replace, lockmw.Strict()}, stops(nil), jobs.OutcomeDone, nil, ""},
		"its context's":       {options{replace}, stops(context.Canceled), jobs.OutcomeDone, nil, ""},
		"the loss":            {options{latest}, stops(renewer.ErrLost), jobs.OutcomeDone, nil, ""},
		"one of its own":      {options{replace}, stops(errOwn), jobs.OutcomeDone, []error{errOwn, renewer.ErrReplaced}, ""},
		"before it has heard": {options{latest}, after(errOwn), jobs.OutcomeRan, []error{errOwn}, ""},
		"no such handler":     {nil, stops(context.Canceled), jobs.OutcomeRan, []error{renewer.ErrReplaced}, ""},
		"a lock of its own":   {options{replace}, within, jobs.OutcomeRan, []error{renewer.ErrReplaced}, "inner"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := replaced(t, cmp.Or(c.other, "u1"), c.work, c.opts...)
				assert.Equal(t, c.want, r.Outcome)
				assert.Equal(t, c.is == nil, r.Err == nil, "%v", r.Err)
				for _, want := range c.is {
					assert.ErrorIs(t, r.Err, want)
				}
			})
		})
	}
}

// A job inside of another, under the same lock, which was replaced: it has not
// been replaced itself, and comes back.
func TestJobUnderALockThatWasReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var inner jobs.Result
		replaced(t, "u1", func(ctx context.Context, k *renewer.Keeper) error {
			<-ctx.Done()
			inner = jobs.Wrap(k, itself, func(context.Context, string) error {
				t.Error("it ran")
				return nil
			})(context.WithoutCancel(ctx), jobs.Delivery{Kind: "export"}, "u1")
			return nil
		}, lockmw.Replace())
		assert.Equal(t, jobs.OutcomeBack, inner.Outcome)
		require.ErrorIs(t, inner.Err, renewer.ErrLost)
	})
}

// The newest job waits for as long as it may, and in no line, behind others that
// came before it.
func TestTheNewestJobWaitsInVain(t *testing.T) {
	t.Parallel()
	const eighth, told = 10 * time.Second, 2 * time.Second
	for name, c := range map[string]struct {
		opts  []jobs.Option
		waits time.Duration
	}{
		"by default":   {[]jobs.Option{lockmw.Latest()}, eighth},
		"Wait":         {[]jobs.Option{lockmw.Wait(told), lockmw.Latest()}, told},
		"Wait after":   {[]jobs.Option{lockmw.Latest(), lockmw.Wait(told)}, told},
		"Wait is long": {[]jobs.Option{lockmw.Latest(), lockmw.Wait(time.Hour)}, eighth},
		"Refuse last":  {[]jobs.Option{lockmw.Latest(), lockmw.Refuse()}, 0},
		"after Skip":   {[]jobs.Option{lockmw.Skip(), lockmw.Latest()}, eighth},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, f *fake, k *renewer.Keeper, _ *jobs.Line) {
				lease, err := k.Acquire(t.Context(), renewer.Request{Name: "u1"})
				require.NoError(t, err)
				ctx, cancel := context.WithTimeout(t.Context(), 8*eighth)
				defer cancel()
				run := jobs.Wrap(k, itself, func(context.Context, string) error { return nil },
					append(c.opts, jobs.InLine(f))...)
				begun := time.Now()
				r := run(ctx, jobs.Delivery{Kind: "export", Queue: "q", ID: "1"}, "u1")
				assert.Equal(t, jobs.OutcomeBack, r.Outcome)
				require.ErrorIs(t, r.Err, renewer.ErrBusy)
				assert.Equal(t, c.waits, time.Since(begun))
				if c.waits > 0 { // else it is no newest one
					assert.Empty(t, f.told())
				}
				require.NoError(t, lease.Release(t.Context()))
			})
		})
	}
}

// A job on its last attempt stands in line as its copy, and keeps no worker
// meanwhile: the framework drops one whose process is killed. If no copy can be
// made, it waits beside the line.
func TestLastAttemptInLine(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *fake, k *renewer.Keeper, _ *jobs.Line) {
		f.at.Ask = true
		lease, err := k.Acquire(t.Context(), renewer.Request{Name: "u1"})
		require.NoError(t, err)
		run := jobs.Wrap(k, itself, func(context.Context, string) error { return nil }, jobs.InLine(f))
		begun := time.Now()
		r := run(t.Context(), jobs.Delivery{Queue: "q", ID: "1", Last: true, Copy: func(
			context.Context, string, time.Duration,
		) error {
			return nil
		}}, "u1")
		assert.Equal(t, jobs.OutcomeCopied, r.Outcome)
		assert.True(t, r.InLine)
		assert.Zero(t, time.Since(begun))
		assert.Contains(t, f.told(), "arrive home "+r.Copy+" for 1 1s")

		told := make(chan jobs.Result, 1)
		go func() { told <- run(t.Context(), jobs.Delivery{Queue: "q", ID: "2", Last: true}, "u1") }()
		<-time.After(time.Hour)
		require.Empty(t, told)
		require.NoError(t, lease.Release(t.Context()))
		assert.Equal(t, jobs.Result{Outcome: jobs.OutcomeRan}, <-told)
		for _, text := range f.told() {
			assert.NotContains(t, text, "arrive")
		}
	})
}
