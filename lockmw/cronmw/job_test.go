package cronmw_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/cronmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// The job takes no time at all, and the other node comes later.
func TestATickIsTakenOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		runs := 0
		fn := func(ctx context.Context) error {
			runs++
			return lockmw.Assert(ctx, "cron:job")
		}
		first := b.job("a", cronmw.Every(minute), fn)
		second := b.job("b", cronmw.Every(minute), fn)
		elapse(minute)
		due := time.Now()
		got := first.Fire(t.Context())
		require.NoError(t, got.Err)
		assert.Equal(t, cronmw.Tick{
			Job: "job", Due: due, Outcome: cronmw.OutcomeRan, Attempt: 1,
		}, got)
		elapse(20 * time.Second)
		got = second.Fire(t.Context())
		assert.Equal(t, cronmw.OutcomeSkipped, got.Outcome)
		require.NoError(t, got.Err)
		assert.Equal(t, "a", got.Holder.Node)
		assert.Equal(t, "job", got.Job)
		assert.True(t, due.Equal(got.Due))
		assert.Equal(t, 1, runs)
		assert.Equal(t, got, b.log.last())

		elapse(40 * time.Second)
		assert.Equal(t, cronmw.OutcomeRan, second.Fire(t.Context()).Outcome,
			"the next tick is any node's")
		assert.Equal(t, 2, runs)
	})
}

func TestGrace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		node time.Duration
		opts []cronmw.Option
		each time.Duration
		want time.Duration
	}{
		{"default", 0, nil, 24 * time.Hour, cronmw.MaxGrace},
		{"frequent", 0, nil, time.Second, 500 * time.Millisecond},
		{"node", 7 * time.Second, nil, minute, 7 * time.Second},
		{
			"job", 7 * time.Second,
			[]cronmw.Option{cronmw.Grace(30 * time.Second)},
			minute,
			30 * time.Second,
		},
		{"most", 0, []cronmw.Option{cronmw.Grace(minute)}, minute, minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, b *bed) {
				n := b.node("a", func(cfg *cronmw.Config) { cfg.Grace = c.node })
				j, err := n.Job("job", cronmw.Every(c.each), nothing, c.opts...)
				require.NoError(t, err)
				assert.Equal(t, c.want, j.Grace())
				elapse(2*c.each + c.want - 1)
				got := j.Fire(t.Context())
				assert.Equal(t, cronmw.OutcomeRan, got.Outcome, "just in time")
				assert.Zero(t, got.Missed, "the job was not known before")
				if c.each == time.Second || c.want == c.each {
					return // a late call may be an early one, or one tick is always due
				}
				elapse(c.each + 1)
				got = j.Fire(t.Context())
				assert.Equal(t, cronmw.OutcomeMissed, got.Outcome, "too late")
				assert.WithinDuration(t, time.Now(), got.Due.Add(c.want), 1)
				assert.Equal(t, got, b.log.last())
			})
		})
	}
}

func TestErrorsAreTold(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		failed := errors.New("failed")
		j := b.job("a", cronmw.Every(minute), func(context.Context) error {
			elapse(time.Second)
			return failed
		})
		assert.Equal(t, "job", j.Name())
		elapse(minute)
		j.Run()
		got := b.log.last()
		assert.Equal(t, cronmw.OutcomeRan, got.Outcome)
		require.ErrorIs(t, got.Err, failed)
		assert.Equal(t, time.Second, got.Took)

		down := errors.New("connection refused")
		b.store.Default(script.Acquire, script.Fail(down))
		elapse(minute - time.Second)
		begun := time.Now()
		j.Run()
		got = b.log.last()
		assert.Equal(t, cronmw.OutcomeNotRun, got.Outcome)
		require.ErrorIs(t, got.Err, renewer.ErrUnavailable)
		require.ErrorIs(t, got.Err, down)
		assert.Equal(t, j.Grace(), time.Since(begun), "it is asked for as long as that")
		b.store.Default(script.Acquire, script.Pass())
	})
}

// A lock that is had when the grace is over runs nothing.
func TestALateAnswerIsNotTaken(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		j := b.job("a", cronmw.Every(10*minute), func(context.Context) error {
			assert.Fail(t, "it ran")
			return nil
		}, cronmw.Grace(time.Second))
		b.store.Script(script.Acquire, script.Pass().Slow(time.Second-1))
		b.store.Script(script.Prepare, script.Pass().Slow(1))
		elapse(10 * minute)
		got := j.Fire(t.Context())
		assert.Equal(t, cronmw.OutcomeMissed, got.Outcome)
		require.NoError(t, got.Err)
		lease, err := b.keeper("b").TryAcquire(t.Context(), "cron:job")
		require.NoError(t, err, "the lock is free")
		require.NoError(t, lease.Release(t.Context()))
	})
}

// The run hears of the loss before another node can have the lock,
// and goes on to be told what it came to.
func TestLostInTheMiddle(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		j := b.job("a", cronmw.Every(minute), func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		b.store.Script(script.Renew, script.Gone())
		elapse(minute)
		got := j.Fire(t.Context())
		assert.Equal(t, cronmw.OutcomeRan, got.Outcome)
		require.ErrorIs(t, got.Err, renewer.ErrLost)
		assert.Equal(t, cronmw.ResultLost, b.history().Result)
	})
}

func TestContextEnds(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		ctx, stop := context.WithCancel(t.Context())
		n, err := cronmw.New(ctx, b.keeper("a"), cronmw.Config{OnTick: b.log.add})
		require.NoError(t, err)
		j, err := n.Job("job", cronmw.Every(minute), func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		require.NoError(t, err)
		elapse(minute)
		done := make(chan struct{})
		go func() {
			j.Run()
			close(done)
		}()
		synctest.Wait()
		stop()
		<-done
		got := b.log.last()
		assert.Equal(t, cronmw.OutcomeRan, got.Outcome)
		require.ErrorIs(t, got.Err, context.Canceled)
		require.NotErrorIs(t, got.Err, renewer.ErrLost)

		elapse(minute)
		j.Run()
		got = b.log.last()
		assert.Equal(t, cronmw.OutcomeNotRun, got.Outcome)
		require.ErrorIs(t, got.Err, context.Canceled)
		assert.Equal(t, cronmw.ResultFailed, b.history().Result)
	})
}

// A panic frees the lock, and is the scheduler's. Its tick is not run again.
func TestPanicPassesThrough(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		runs := 0
		j := b.job("a", cronmw.Every(minute), func(context.Context) error {
			runs++
			panic("no luck")
		})
		for range 2 {
			elapse(minute)
			require.PanicsWithValue(t, "no luck", j.Run)
			assert.Equal(t, cronmw.OutcomeSkipped, j.Fire(t.Context()).Outcome)
			assert.Equal(t, cronmw.ResultPanicked, b.history().Result)
		}
		assert.Equal(t, 2, runs)
		assert.Zero(t, b.log.count(cronmw.OutcomeRan))
	})
}
