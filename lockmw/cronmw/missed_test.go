package cronmw_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/cronmw"
	"github.com/lockbeat/lockbeat/renewer"
)

// All nodes were down for the night. The last of its ticks is run when they
// come back, by one.
func TestRunIfMissed(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, f *fleet) {
		s := cronmw.Every(time.Hour)
		begin := func(opts ...cronmw.Option) (ran int) {
			before := f.count(renewer.OutcomeRan)
			for range 3 {
				f.add(0).job(s, nothing, opts...)
			}
			elapse(minute)
			return f.count(renewer.OutcomeRan) - before
		}
		elapse(90 * minute)
		assert.Zero(t, begin(cronmw.RunIfMissed()), "it has not run before")
		elapse(29 * minute)
		f.add(0).job(s, nothing).Run()
		assert.Zero(t, begin(cronmw.RunIfMissed()), "no tick was due since")
		elapse(9*time.Hour - minute/2)
		assert.Zero(t, begin(), "without the option")
		assert.Equal(t, 1, begin(cronmw.RunIfMissed()))
		f.lateness(t, start.Add(11*time.Hour))
		assert.Equal(t, []int{8}, f.missed(), "the earlier ones are told of")
		assert.Zero(t, begin(cronmw.RunIfMissed()), "it has been run")
	})
}

// A node that slept over its tick runs it when it calls, by RunIfMissed after
// the grace too.
func TestRunIfMissedByALateCall(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, f *fleet) {
		j := f.add(0).job(cronmw.Every(24*time.Hour), nothing, cronmw.RunIfMissed())
		for i := range 2 {
			elapse(24*time.Hour + 20*minute*time.Duration(i+1))
			require.Equal(t, renewer.OutcomeRan, j.Fire(t.Context()).Outcome)
			assert.Equal(t, renewer.OutcomeSkipped, j.Fire(t.Context()).Outcome)
		}
	})
}

// The store was away over a tick and its grace, and no node was down: one of
// them runs the tick when the store is back. Until then they ask for it now and
// then.
func TestRunIfMissedWhenTheStoreWasAway(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, f *fleet) {
		s, due := cronmw.Every(24*time.Hour), start.Add(48*time.Hour)
		for range 3 {
			f.add(0).runs(s, nothing, cronmw.RunIfMissed())
		}
		elapse(time.Until(due.Add(-minute)))
		f.away(true)
		elapse(minute + 15*minute + minute)
		for _, tick := range f.all()[3:] {
			assert.Equal(t, renewer.OutcomeNotRun, tick.Outcome)
			assert.True(t, due.Equal(tick.Due), "it is known which tick that was")
		}
		for _, m := range f.nodes {
			m.asked.Store(0)
		}
		elapse(10 * minute)
		for _, m := range f.nodes {
			assert.LessOrEqual(t, m.asked.Load(), int64(10*minute/(5*time.Second)))
		}
		assert.Equal(t, 3, f.count(renewer.OutcomeNotRun), "once for each node")
		f.away(false)
		elapse(15 * time.Second)
		synctest.Wait()
		assert.Greater(t, f.lateness(t, due), 26*minute)
		elapse(24 * time.Hour)
		f.lateness(t, due.Add(24*time.Hour))
		assert.Empty(t, f.missed())
	})
}

// What came due while an earlier tick ran was passed over, and is not missed.
func TestWhatIsPassedOverIsNotMissed(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, f *fleet) {
		s := cronmw.Every(minute)
		m := f.add(0)
		m.runs(s, takes(150*time.Second))
		elapse(3*minute + 45*time.Second)
		m.stop()
		f.add(0).job(s, nothing, cronmw.RunIfMissed())
		synctest.Wait()
		assert.Equal(t, 1, f.count(renewer.OutcomeRan))
		assert.Empty(t, f.missed())
	})
}

// The schedule is another one under the same name: only ticks later than the
// latest taken are run.
func TestTheScheduleIsChanged(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, f *fleet) {
		hourly := f.add(0).job(cronmw.Every(time.Hour), nothing)
		elapse(time.Hour)
		require.Equal(t, renewer.OutcomeRan, hourly.Fire(t.Context()).Outcome)
		elapse(5 * minute)
		quarterly := f.add(0).job(cronmw.Every(15*minute), nothing)
		got := quarterly.Fire(t.Context())
		assert.Equal(t, renewer.OutcomeSkipped, got.Outcome, "the tick at 1:00 is both's")
		elapse(10 * minute)
		got = quarterly.Fire(t.Context())
		assert.Equal(t, renewer.OutcomeRan, got.Outcome)
		assert.Zero(t, got.Missed)
		assert.Equal(t, renewer.OutcomeSkipped, hourly.Fire(t.Context()).Outcome)
	})
}

// A deployment changes the schedule. No node was to run the ticks that the new
// one has in the past: nothing is missed, also with RunIfMissed, until it has
// run once.
func TestAChangedScheduleIsCountedFromNow(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, f *fleet) {
		former, s := uneven{5 * minute, 35 * minute}, cronmw.Every(10*minute)
		elapse(5 * minute)
		got := f.add(0).job(former, nothing, cronmw.RunIfMissed()).Fire(t.Context())
		require.Equal(t, renewer.OutcomeRan, got.Outcome)
		elapse(44 * minute)
		j := f.add(0).job(s, nothing, cronmw.RunIfMissed())
		elapse(minute)
		assert.Equal(t, 1, f.count(renewer.OutcomeRan))
		assert.Zero(t, j.Fire(t.Context()).Missed)
		assert.Equal(t, 2, f.count(renewer.OutcomeRan))

		t.Log("from now on it counts")
		elapse(21 * minute)
		f.add(0).job(s, nothing, cronmw.RunIfMissed())
		elapse(time.Second)
		f.lateness(t, start.Add(70*minute))
		assert.Equal(t, []int{1}, f.missed())
	})
}

// Two programs have a job of one name, on schedules of their own: each says so,
// once.
func TestTwoProgramsWithOneName(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, f *fleet) {
		for _, s := range []cronmw.Schedule{cronmw.Every(minute), cronmw.Every(2 * minute)} {
			for range 2 {
				m := f.add(0)
				j := m.job(s, nothing)
				m.calls(s, func() { elapse(rand.N(time.Second)); j.Run() })
			}
		}
		elapse(2 * time.Hour)
		synctest.Wait()
		assert.Equal(t, 4, f.count(renewer.OutcomeConflict), "each node, once")
		for _, tick := range f.all() {
			if tick.Outcome == renewer.OutcomeConflict {
				require.ErrorIs(t, tick.Err, renewer.ErrConfig)
				require.ErrorContains(t, tick.Err, "give each a name of its own")
				assert.NotEmpty(t, tick.Holder.Node)
			}
		}
	})
}

// A deployment of a changed schedule is no conflict: the former nodes end.
func TestADeploymentIsNoConflict(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, f *fleet) {
		old := f.add(0)
		old.runs(cronmw.Every(2*time.Hour), nothing)
		elapse(3 * time.Hour)
		f.add(0).runs(cronmw.Every(time.Hour), nothing)
		elapse(30 * minute)
		old.stop()
		elapse(10 * time.Hour)
		assert.Zero(t, f.count(renewer.OutcomeConflict))
	})
}
