package cronmw_test

import (
	"context"
	"errors"
	"fmt"
	"runtime/pprof"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/cronmw"
	"github.com/lockbeat/lockbeat/renewer"
)

// The job takes no time at all, and the other node comes later.
func TestATickIsTakenOnce(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, f *fleet) {
		fn := func(ctx context.Context) error {
			assert.True(t, lockmw.Held(ctx, "cron:job"))
			return nil
		}
		first := f.add(0).job(cronmw.Every(minute), fn)
		second := f.add(0).job(cronmw.Every(minute), fn)
		elapse(minute)
		due := time.Now()
		got := first.Fire(t.Context())
		require.NoError(t, got.Err)
		assert.Equal(t, renewer.Run{
			Job: "job", Due: due, Outcome: renewer.OutcomeRan, Attempt: 1,
			LastSuccess: got.LastSuccess, DueBy: got.DueBy,
		}, got)
		elapse(20 * time.Second)
		got = second.Fire(t.Context())
		assert.Equal(t, renewer.OutcomeSkipped, got.Outcome)
		require.NoError(t, got.Err)
		assert.Equal(t, "node-1", got.Holder.Node)
		assert.Equal(t, "job", got.Job)
		assert.True(t, due.Equal(got.Due))
		assert.Equal(t, got, f.last())
		f.lateness(t, due)

		elapse(40 * time.Second)
		assert.Equal(t, renewer.OutcomeRan, second.Fire(t.Context()).Outcome,
			"the next tick is any node's")
	})
}

func TestErrorsAreTold(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, f *fleet) {
		failed := errors.New("failed")
		m := f.add(0)
		j := m.job(cronmw.Every(minute), func(context.Context) error {
			elapse(time.Second)
			return failed
		})
		elapse(minute)
		j.Run()
		got := f.last()
		assert.Equal(t, renewer.OutcomeRan, got.Outcome)
		require.ErrorIs(t, got.Err, failed)
		assert.Equal(t, time.Second, got.Took)

		m.cut.Store(true)
		elapse(minute - time.Second)
		j.Run()
		got = f.last()
		assert.Equal(t, renewer.OutcomeNotRun, got.Outcome)
		require.ErrorIs(t, got.Err, renewer.ErrUnavailable)
		require.ErrorIs(t, got.Err, errCut)
		assert.Equal(t, 30*time.Second, got.Took, "it is asked for as long as the grace")
	})
}

// A lock that is had when the grace is over runs nothing.
func TestALateAnswerIsNotTaken(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, f *fleet) {
		m := f.add(0)
		j := m.job(cronmw.Every(10*minute), nothing, cronmw.Grace(time.Second))
		m.slow.Store(int64(time.Second))
		elapse(10 * minute)
		got := j.Fire(t.Context())
		assert.Equal(t, renewer.OutcomeMissed, got.Outcome)
		require.NoError(t, got.Err)
		assert.Empty(t, f.begins(start.Add(10*minute)))
		lease, err := f.add(0).keeper.Acquire(t.Context(), renewer.Request{
			Name: "cron:job", Try: true,
		})
		require.NoError(t, err, "the lock is free")
		require.NoError(t, lease.Release(t.Context()))
	})
}

// The run hears of the loss, and goes on to be told what it came to.
func TestMaxHoldOfARun(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, f *fleet) {
		j := f.add(0).job(cronmw.Every(time.Hour), untilCut, lockmw.MaxHold(5*minute))
		elapse(time.Hour)
		tick := j.Fire(t.Context())
		assert.Equal(t, renewer.OutcomeRan, tick.Outcome)
		require.ErrorIs(t, tick.Err, renewer.ErrLost)
		var lost *renewer.LostError
		require.ErrorAs(t, tick.Err, &lost)
		assert.Equal(t, renewer.ReasonMaxHold, lost.Reason)
		assert.Equal(t, 5*minute, tick.Took)
	})
}

// Callers who are refused read what the lock is held for: the job, unless it is
// said.
func TestOperationOfARun(t *testing.T) {
	t.Parallel()
	for want, opts := range map[string][]cronmw.Option{
		"job": nil, "nightly": {lockmw.Operation("nightly")},
	} {
		inFleet(t, func(t *testing.T, f *fleet) {
			other := f.add(0).keeper
			j := f.add(0).job(cronmw.Every(minute), func(context.Context) error {
				_, err := other.Acquire(t.Context(), renewer.Request{Name: "cron:job", Try: true})
				return err
			}, opts...)
			elapse(minute)
			var refused *renewer.Error
			require.ErrorAs(t, j.Fire(t.Context()).Err, &refused)
			assert.Equal(t, want, refused.Holder.Operation)
		})
	}
}

// A run ends with the node's context, whatever the call's is; and no further
// one begins.
func TestContextEnds(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, f *fleet) {
		m := f.add(0)
		j := m.job(cronmw.Every(minute), untilCut)
		elapse(minute)
		time.AfterFunc(time.Second, m.stop)
		got := j.Fire(t.Context())
		assert.Equal(t, renewer.OutcomeRan, got.Outcome)
		require.ErrorIs(t, got.Err, context.Canceled)
		require.NotErrorIs(t, got.Err, renewer.ErrLost)

		elapse(minute)
		j.Run()
		got = f.last()
		assert.Equal(t, renewer.OutcomeNotRun, got.Outcome)
		require.ErrorIs(t, got.Err, context.Canceled)
	})
}

// A panic frees the lock, is told of, and is the scheduler's. Its tick is not
// run again.
func TestPanicPassesThrough(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, f *fleet) {
		j := f.add(0).job(cronmw.Every(minute), func(context.Context) error { panic("no luck") })
		for i := range 2 {
			elapse(minute)
			require.PanicsWithValue(t, "no luck", j.Run)
			require.ErrorContains(t, f.last().Err, "did not return")
			assert.Equal(t, renewer.OutcomeSkipped, j.Fire(t.Context()).Outcome)
			f.lateness(t, start.Add(time.Duration(i+1)*minute))
		}
		assert.Equal(t, 2, f.count(renewer.OutcomeRan))
	})
}

// A run longer than its interval: no node runs the ticks meanwhile, and none
// waits.
func TestOverlapIsSkipped(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, f *fleet) {
		for range 3 {
			f.add(0).runs(cronmw.Every(minute), takes(150*time.Second))
		}
		elapse(9*minute + 59*time.Second)
		synctest.Wait()
		for i := range 9 {
			assert.Len(t, f.begins(start.Add(time.Duration(i+1)*minute)), max(0, 1-i%3))
		}
		assert.Equal(t, 3*9-3, f.count(renewer.OutcomeSkipped))
		for _, tick := range f.all() {
			if tick.Outcome == renewer.OutcomeSkipped {
				assert.Less(t, tick.Took, time.Second)
			}
		}
	})
}

// RunNow runs at once under the lock, and takes no tick, also shortly before
// one.
func TestRunNow(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, f *fleet) {
		runs := 0
		fn := func(ctx context.Context) error {
			runs++
			assert.Zero(t, cronmw.Current(ctx))
			elapse(time.Second)
			assert.True(t, lockmw.Held(ctx, "cron:job"))
			return labelled(ctx)
		}
		first := f.add(0).job(cronmw.Every(minute), fn)
		elapse(50 * time.Second)
		go func() { assert.NoError(t, first.RunNow(t.Context())) }()
		synctest.Wait()
		second := f.add(0).job(cronmw.Every(minute), labelled)
		require.ErrorIs(t, second.RunNow(t.Context()), renewer.ErrBusy)
		elapse(10 * time.Second)
		assert.Equal(t, 1, runs)
		tick := second.Fire(t.Context())
		assert.Equal(t, renewer.OutcomeRan, tick.Outcome)
		assert.NoError(t, tick.Err)
	})
}

// labelled is a job that fails unless profiles name its lock.
func labelled(ctx context.Context) error {
	if lock, _ := pprof.Label(ctx, "lock"); lock != "cron:job" {
		return fmt.Errorf("its label is %q", lock)
	}
	return nil
}

// A process that slept over its tick calls when it wakes up, and runs it if no
// other has.
func TestLate(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, f *fleet) {
		j := f.add(0).job(cronmw.Every(minute), nothing, cronmw.Grace(4*time.Second))
		elapse(minute + 4*time.Second - 1)
		assert.Equal(t, renewer.OutcomeRan, j.Fire(t.Context()).Outcome)
		assert.Equal(t, renewer.OutcomeSkipped, j.Fire(t.Context()).Outcome, "it has been run")
		elapse(5*minute + 1)
		got := j.Fire(t.Context())
		assert.Equal(t, renewer.OutcomeMissed, got.Outcome)
		assert.Equal(t, 4, got.Missed, "before the one at 6:00")
		require.NoError(t, got.Err)
		assert.Equal(t, got, f.last())
		elapse(minute - 4*time.Second)
		got = j.Fire(t.Context())
		assert.Equal(t, renewer.OutcomeRan, got.Outcome)
		assert.Equal(t, 5, got.Missed)
		elapse(20 * time.Second)
		assert.Equal(t, renewer.OutcomeSkipped, j.Fire(t.Context()).Outcome, "no tick was due")
	})
}

// Nothing is due after a schedule's last tick.
func TestAfterTheLastTick(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, f *fleet) {
		j := f.add(0).job(once(start.Add(minute)), nothing)
		elapse(minute)
		assert.Equal(t, renewer.OutcomeRan, j.Fire(t.Context()).Outcome)
		elapse(24 * time.Hour)
		assert.Equal(t, renewer.OutcomeSkipped, j.Fire(t.Context()).Outcome)
	})
}
