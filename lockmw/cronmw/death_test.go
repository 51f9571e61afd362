package cronmw_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/cronmw"
	"github.com/lockbeat/lockbeat/renewer"
)

// diesAfter makes a job's function that kills its node in the middle, after a while.
func diesAfter(m *machine, after time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		elapse(after)
		m.die()
		<-ctx.Done()
		return context.Cause(ctx)
	}
}

// The node that runs dies in the middle: nothing runs the rest, and the next tick is run elsewhere.
func TestANodeDies(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, f *fleet) {
		s := cronmw.Every(minute)
		first := f.add(0)
		first.schedules(s, first.job(s, diesAfter(first, 5*time.Second)), inTime)
		for range 3 {
			m := f.add(10 * time.Millisecond) // it waits, and so comes second
			m.schedules(s, m.job(s, nothing), inTime)
		}
		elapse(3*minute + time.Second)
		synctest.Wait()
		for i := range 3 {
			f.lateness(t, start.Add(time.Duration(i+1)*minute))
		}
		assert.Empty(t, f.log.missed(), "it had begun")
	})
}

// With TakeOver a node that stands by runs it again, once the lock has lapsed.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, f *fleet) {
		s, due := cronmw.Every(time.Hour), start.Add(time.Hour)
		var attempts []int
		for i := range 4 {
			m := f.add(time.Duration(i) * time.Millisecond)
			m.schedules(s, m.job(s, func(ctx context.Context) error {
				run := cronmw.Current(ctx)
				assert.Equal(t, "job", run.Job)
				attempts = append(attempts, run.Attempt)
				if run.Attempt == 3 {
					return nil
				}
				return diesAfter(m, 10*time.Second)(ctx)
			}, cronmw.TakeOver(3)), inTime)
		}
		elapse(time.Hour + 10*minute)
		synctest.Wait()
		assert.Equal(t, []int{1, 2, 3}, attempts, "and none after that")
		begun := f.begins(due)
		require.Len(t, begun, 3)
		for i := range 2 {
			assert.InDelta(t, 10*time.Second+renewer.DefaultTTL, begun[i+1].Sub(begun[i]),
				float64(renewer.DefaultTTL/2))
		}
	})
}

// The nodes die one after the other: no more runs than that.
func TestTakeOverHasAnEnd(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, f *fleet) {
		s := cronmw.Every(time.Hour)
		for range 4 {
			m := f.add(0)
			m.schedules(s, m.job(s, diesAfter(m, time.Second), cronmw.TakeOver(2)), inTime)
		}
		elapse(time.Hour + 10*minute)
		synctest.Wait()
		assert.Len(t, f.begins(start.Add(time.Hour)), 2)
	})
}

// The only node died in the middle, and comes back.
func TestTakeOverAfterARestart(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, f *fleet) {
		s, due := cronmw.Every(time.Hour), start.Add(time.Hour)
		m := f.add(0)
		m.schedules(s, m.job(s, diesAfter(m, minute), cronmw.TakeOver(2)), inTime)
		elapse(time.Hour + 10*minute)
		f.add(0).job(s, func(ctx context.Context) error {
			assert.Equal(t, 2, cronmw.Current(ctx).Attempt)
			return nil
		}, cronmw.TakeOver(2))
		synctest.Wait()
		last := f.log.last()
		assert.Equal(t, cronmw.OutcomeRan, last.Outcome)
		assert.Equal(t, 2, last.Attempt)
		assert.True(t, due.Equal(last.Due))

		t.Log("one more would be the third")
		f.add(0).job(s, nothing, cronmw.TakeOver(2))
		synctest.Wait()
		assert.Equal(t, last, f.log.last())
	})
}

// All nodes were down for the night. The last of its ticks is run when they come back, by one.
func TestRunIfMissed(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, f *fleet) {
		s := cronmw.Every(time.Hour)
		begin := func(opts ...cronmw.Option) (ran int) {
			before := f.log.count(cronmw.OutcomeRan)
			for range 3 {
				f.add(0).job(s, nothing, opts...)
			}
			elapse(minute)
			synctest.Wait()
			return f.log.count(cronmw.OutcomeRan) - before
		}
		elapse(30 * minute)
		assert.Zero(t, begin(cronmw.RunIfMissed()), "no node knew the job before")
		assert.Empty(t, f.log.ticks)
		assert.Zero(t, begin(cronmw.RunIfMissed()), "no tick was due since")
		elapse(9 * time.Hour)
		assert.Zero(t, begin(), "without the option")
		assert.Equal(t, 1, begin(cronmw.RunIfMissed()))
		f.lateness(t, start.Add(9*time.Hour))
		assert.Equal(t, []int{8}, f.log.missed(), "the earlier ones are told of")
		assert.Zero(t, begin(cronmw.RunIfMissed()), "it has been run")
	})
}

// The store was away over a tick and its grace, and no node was down: one of them runs the tick when
// the store is back. Until then they ask for it now and then.
func TestRunIfMissedWhenTheStoreWasAway(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, f *fleet) {
		s, due := cronmw.Every(24*time.Hour), start.Add(48*time.Hour)
		for range 3 {
			m := f.add(0)
			m.schedules(s, m.job(s, nothing, cronmw.RunIfMissed()), inTime)
		}
		cut := func(away bool) {
			for _, m := range f.nodes {
				m.cut.Store(away)
			}
		}
		elapse(time.Until(due.Add(-minute)))
		cut(true)
		elapse(minute + cronmw.MaxGrace + minute)
		for _, tick := range f.log.all()[3:] {
			assert.Equal(t, cronmw.OutcomeNotRun, tick.Outcome)
			assert.True(t, due.Equal(tick.Due), "it is known which tick that was")
		}
		for _, m := range f.nodes {
			m.asked.Store(0)
		}
		elapse(10 * minute)
		for _, m := range f.nodes {
			assert.LessOrEqual(t, m.asked.Load(), int64(10*minute/(5*time.Second)))
		}
		assert.Equal(t, 3, f.log.count(cronmw.OutcomeNotRun), "once for each node")
		cut(false)
		elapse(15 * time.Second)
		synctest.Wait()
		assert.Greater(t, f.lateness(t, due), cronmw.MaxGrace+11*minute)
		elapse(24 * time.Hour)
		f.lateness(t, due.Add(24*time.Hour))
		assert.Empty(t, f.log.missed())
	})
}

// What came due while an earlier tick ran was passed over, and is not missed.
func TestWhatIsPassedOverIsNotMissed(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, f *fleet) {
		s := cronmw.Every(minute)
		m := f.add(0)
		m.schedules(s, m.job(s, func(context.Context) error {
			elapse(150 * time.Second)
			return nil
		}), inTime)
		elapse(3*minute + 45*time.Second)
		m.stop()
		f.add(0).job(s, nothing, cronmw.RunIfMissed())
		synctest.Wait()
		assert.Equal(t, 1, f.log.count(cronmw.OutcomeRan))
		assert.Empty(t, f.log.missed())
	})
}

func TestHistory(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, f *fleet) {
		k, err := renewer.New(f.store, renewer.Config{TTL: renewer.DefaultTTL})
		require.NoError(t, err)
		t.Cleanup(func() { _ = k.Shutdown(context.WithoutCancel(t.Context())); synctest.Wait() })
		got, err := cronmw.History(t.Context(), k, "job")
		require.NoError(t, err)
		assert.Zero(t, got)

		j := f.add(0).job(cronmw.Every(time.Hour), func(context.Context) error {
			elapse(7 * time.Second)
			got, err := cronmw.History(t.Context(), k, "job")
			require.NoError(t, err)
			assert.Zero(t, got.Ended)
			assert.Zero(t, got.Took())
			assert.Equal(t, cronmw.ResultNone, got.Result)
			return nil
		})
		elapse(time.Hour + time.Second)
		require.Equal(t, cronmw.OutcomeRan, j.Fire(t.Context()).Outcome)
		got, err = cronmw.History(t.Context(), k, "job")
		require.NoError(t, err)
		assert.True(t, start.Add(time.Hour).Equal(got.Due))
		assert.True(t, start.Add(2*time.Hour).Equal(got.Next))
		assert.True(t, start.Add(time.Hour+time.Second).Equal(got.Begun))
		assert.True(t, got.Known.Equal(got.Begun))
		assert.Equal(t, 7*time.Second, got.Took())
		assert.Equal(t, 1, got.Attempt)
		assert.Equal(t, cronmw.ResultSucceeded, got.Result)
		assert.Equal(t, "node-1", got.Holder.Node)
		assert.Positive(t, got.Holder.PID)

		elapse(7 * 24 * time.Hour)
		got, err = cronmw.History(t.Context(), k, "job")
		require.NoError(t, err)
		assert.Zero(t, got, "after a week")
		_, err = cronmw.History(t.Context(), k, "")
		require.ErrorIs(t, err, renewer.ErrName)
		_, err = cronmw.History(t.Context(), nil, "job")
		require.ErrorIs(t, err, renewer.ErrConfig)
	})
}
