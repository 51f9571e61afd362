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

// The schedule is another one under the same name: only ticks later than the latest taken are run.
func TestTheScheduleIsChanged(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, f *fleet) {
		hourly := f.add(0).job(cronmw.Every(time.Hour), nothing)
		elapse(time.Hour)
		require.Equal(t, cronmw.OutcomeRan, hourly.Fire(t.Context()).Outcome)
		elapse(5 * minute)
		quarterly := f.add(0).job(cronmw.Every(15*minute), nothing)
		got := quarterly.Fire(t.Context())
		assert.Equal(t, cronmw.OutcomeSkipped, got.Outcome, "the tick at 1:00 is both's")
		elapse(10 * minute)
		got = quarterly.Fire(t.Context())
		assert.Equal(t, cronmw.OutcomeRan, got.Outcome)
		assert.Zero(t, got.Missed)
		assert.Equal(t, cronmw.OutcomeSkipped, hourly.Fire(t.Context()).Outcome)
	})
}

// A deployment changes the schedule. No node was to run the ticks that the new one has in the past:
// with RunIfMissed the job is known from now on, and nothing is missed.
func TestAChangedScheduleIsCountedFromNow(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, f *fleet) {
		former, s := uneven{5 * minute, 35 * minute}, cronmw.Every(10*minute)
		elapse(5 * minute)
		got := f.add(0).job(former, nothing, cronmw.RunIfMissed()).Fire(t.Context())
		require.Equal(t, cronmw.OutcomeRan, got.Outcome)
		elapse(44 * minute)
		f.add(0).job(s, nothing, cronmw.RunIfMissed())
		elapse(time.Second)
		assert.Equal(t, 1, f.log.count(cronmw.OutcomeRan))
		last := f.history()
		assert.True(t, start.Add(50*minute).Equal(last.Next))
		assert.True(t, start.Add(5*minute).Equal(last.Due), "the latest tick stays")

		t.Log("from now on it counts")
		elapse(21*minute + 30*time.Second)
		f.add(0).job(s, nothing, cronmw.RunIfMissed())
		elapse(time.Second)
		f.lateness(t, start.Add(70*minute))
		assert.Equal(t, []int{2}, f.log.missed())

		t.Log("and the former one again, without that option")
		elapse(time.Until(former.Next(time.Now().Add(2 * time.Hour))))
		got = f.add(0).job(former, nothing).Fire(t.Context())
		assert.Equal(t, cronmw.OutcomeRan, got.Outcome)
		assert.Zero(t, got.Missed)
	})
}

// A record of a former version does not say which schedule it was taken by.
func TestARecordWithoutASchedule(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		b.store.PutRecord("cron:job", `{"version":1,"known":"1999-12-31T20:00:00Z",`+
			`"due":"1999-12-31T20:00:00Z","begun":"1999-12-31T20:00:00Z",`+
			`"ended":"1999-12-31T20:00:01Z","attempt":1,"outcome":"succeeded"}`)
		b.job("a", cronmw.Every(time.Hour), nothing, cronmw.RunIfMissed())
		synctest.Wait()
		assert.Equal(t, cronmw.OutcomeRan, b.log.last().Outcome)
		assert.Equal(t, 3, b.log.last().Missed)
	})
}

// Two programs have a job of one name, on schedules of their own: each says so, once.
func TestTwoProgramsWithOneName(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, f *fleet) {
		for _, s := range []cronmw.Schedule{cronmw.Every(minute), cronmw.Every(2 * minute)} {
			for range 2 {
				m := f.add(0)
				m.schedules(s, m.job(s, nothing), func() time.Duration {
					return rand.N(time.Second)
				})
			}
		}
		elapse(2 * time.Hour)
		synctest.Wait()
		assert.Equal(t, 4, f.log.count(cronmw.OutcomeConflict), "each node, once")
		for _, tick := range f.log.all() {
			if tick.Outcome == cronmw.OutcomeConflict {
				assert.Equal(t, "job", tick.Job)
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
		former, s := cronmw.Every(2*time.Hour), cronmw.Every(time.Hour)
		old := f.add(0)
		old.schedules(former, old.job(former, nothing), inTime)
		elapse(3 * time.Hour)
		m := f.add(0)
		m.schedules(s, m.job(s, nothing), inTime)
		elapse(30 * minute)
		old.stop()
		elapse(10 * time.Hour)
		assert.Zero(t, f.log.count(cronmw.OutcomeConflict))
	})
}
