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

// The job takes no time at all, and the other node's clock is behind.
func TestTheLockOutlivesAShortRun(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		runs := 0
		fn := func(ctx context.Context) error {
			runs++
			return lockmw.Assert(ctx, "cron:job")
		}
		first := b.job("a", cronmw.Every(minute), fn)
		behind := b.job("b", skewed{cronmw.Every(minute), -2 * time.Second}, fn)
		elapse(minute)
		got := first.Fire(t.Context())
		assert.Equal(t, cronmw.OutcomeRan, got.Outcome)
		require.NoError(t, got.Err)
		elapse(2 * time.Second)
		got = behind.Fire(t.Context())
		assert.Equal(t, cronmw.OutcomeSkipped, got.Outcome)
		require.NoError(t, got.Err)
		assert.Equal(t, "a", got.Holder.Node)
		assert.Equal(t, "job", got.Holder.Operation)
		assert.Equal(t, "job", got.Job)
		assert.Equal(t, 1, runs)
		assert.Equal(t, got, b.log.last())

		elapse(minute)
		assert.Equal(t, cronmw.OutcomeRan, behind.Fire(t.Context()).Outcome,
			"the next tick is anybody's")
		assert.Equal(t, 2, runs)
	})
}

// To the millisecond.
func TestHoldAtLeast(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		node time.Duration
		opts []cronmw.Option
		each time.Duration
		want time.Duration
	}{
		{"default", 0, nil, minute, cronmw.DefaultHoldAtLeast},
		{"frequent", 0, nil, time.Second, 500 * time.Millisecond},
		{"node", 7 * time.Second, nil, minute, 7 * time.Second},
		{
			"job", 7 * time.Second,
			[]cronmw.Option{cronmw.HoldAtLeast(30 * time.Second)},
			minute,
			30 * time.Second,
		},
		{
			"most", 0,
			[]cronmw.Option{cronmw.HoldAtLeast(minute - 1)},
			minute,
			minute - time.Millisecond,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, b *bed) {
				n := b.node("a", func(cfg *cronmw.Config) { cfg.HoldAtLeast = c.node })
				j, err := n.Job("job", cronmw.Every(c.each), nothing, c.opts...)
				require.NoError(t, err)
				assert.Equal(t, c.want, j.HoldAtLeast())
				other := b.keeper("b")
				elapse(minute)
				require.Equal(t, cronmw.OutcomeRan, j.Fire(t.Context()).Outcome)
				elapse(c.want - time.Millisecond)
				_, err = other.TryAcquire(t.Context(), "cron:job")
				require.ErrorIs(t, err, renewer.ErrHeld)
				elapse(time.Millisecond)
				lease, err := other.TryAcquire(t.Context(), "cron:job")
				require.NoError(t, err)
				require.NoError(t, lease.Release(t.Context()))
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
		assert.LessOrEqual(t, time.Since(begun), j.HoldAtLeast()/4, "longer might be too late")
		b.store.Default(script.Acquire, script.Pass())
	})
}

// A store that answers late might let two nodes have the same tick.
func TestALateAnswerIsNotTaken(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		j := b.job("a", cronmw.Every(10*minute), func(context.Context) error {
			assert.Fail(t, "it ran")
			return nil
		}, cronmw.HoldAtLeast(4*time.Second))
		b.store.Script(script.Acquire, script.Pass().Late(time.Second+time.Millisecond))
		elapse(10 * minute)
		begun := time.Now()
		got := j.Fire(t.Context())
		assert.Equal(t, cronmw.OutcomeNotRun, got.Outcome)
		require.ErrorIs(t, got.Err, renewer.ErrUnavailable)
		assert.Equal(t, time.Second, time.Since(begun))
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
	})
}

// A panic frees the lock, though not before the tick is over for all nodes, and is the scheduler's.
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
		}
		assert.Equal(t, 2, runs)
		assert.Zero(t, b.log.count(cronmw.OutcomeRan))
	})
}
