package cronmw_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/cronmw"
	"github.com/lockbeat/lockbeat/renewer"
)

// Five nodes whose clocks are up to 10 minutes off, and each of which is late
// as a busy machine is: one run a tick, within the grace.
func TestOneRunATickWhateverTheClocks(t *testing.T) {
	t.Parallel()
	for _, every := range []time.Duration{time.Second, 7 * time.Second, minute, 24 * time.Hour} {
		t.Run(every.String(), func(t *testing.T) {
			t.Parallel()
			inFleet(t, func(t *testing.T, f *fleet) {
				const nodes, ticks = 5, 200
				s, grace := cronmw.Every(every), min(every/2, 15*minute)
				for range nodes {
					m := f.add(rand.N(20*minute) - 10*minute)
					j := m.job(s, nothing)
					m.calls(s, func() { elapse(rand.N(grace / 4)); j.Run() })
				}
				elapse(2 * every) // all have called
				first := s.Next(time.Now())
				elapse(time.Until(first) + ticks*every - 1)
				for i := range ticks {
					late := f.lateness(t, first.Add(time.Duration(i)*every))
					require.GreaterOrEqual(t, late, time.Duration(0))
					require.Less(t, late, grace)
				}
				assert.Zero(t, f.count(renewer.OutcomeNotRun))
			})
		})
	}
}

// The only node there is: it runs each tick, if its clock is off by less than
// the grace, or ahead by less than half of the interval. Then it waits, and so
// is not late at all.
func TestALoneNodeWithAWrongClock(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		every, ahead, late time.Duration
	}{
		{time.Second, 0, 0},
		{time.Second, 300 * time.Millisecond, 0},
		{time.Second, -300 * time.Millisecond, 300 * time.Millisecond},
		{minute, 90*time.Second + time.Millisecond, 30*time.Second - time.Millisecond},
		{minute, -90*time.Second + time.Millisecond, 30*time.Second - time.Millisecond},
		{time.Hour, -10 * minute, 10 * minute},
		{time.Hour, 29 * minute, 0},
		{24 * time.Hour, 11 * time.Hour, 0},
		{24 * time.Hour, -14 * minute, 14 * minute},
	} {
		t.Run(fmt.Sprint(c.every, c.ahead), func(t *testing.T) {
			t.Parallel()
			inFleet(t, func(t *testing.T, f *fleet) {
				s := cronmw.Every(c.every)
				f.add(c.ahead).runs(s, nothing)
				elapse(100 * c.every)
				due := s.Next(start.Add(3 * c.every))
				for ; due.Before(time.Now().Add(-2 * c.every)); due = s.Next(due) {
					require.Equal(t, c.late, f.lateness(t, due))
				}
				assert.Zero(t, f.count(renewer.OutcomeMissed))
				assert.Zero(t, f.count(renewer.OutcomeNotRun))
			})
		})
	}
}

// The store is away for 0.6 s around the tick of a daily job.
func TestTheStoreIsAwayAtTheTick(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, f *fleet) {
		s, due := cronmw.Every(24*time.Hour), start.Add(48*time.Hour)
		for _, ahead := range []time.Duration{0, 2 * time.Second, -minute} {
			f.add(ahead).runs(s, nothing)
		}
		elapse(time.Until(due.Add(-300 * time.Millisecond)))
		f.away(true)
		elapse(600 * time.Millisecond)
		f.away(false)
		elapse(5 * minute)
		assert.Less(t, f.lateness(t, due), time.Second)
		assert.Zero(t, f.count(renewer.OutcomeNotRun))

		t.Log("away for longer than the grace: each node says so")
		elapse(time.Until(due.Add(24*time.Hour - minute)))
		f.away(true)
		elapse(24*time.Hour - time.Hour)
		f.away(false)
		assert.Equal(t, 3, f.count(renewer.OutcomeNotRun))
		elapse(2 * time.Hour)
		f.lateness(t, due.Add(48*time.Hour))
		assert.Equal(t, []int{1}, f.missed(), "and the next one that it was missed")
	})
}

// The store's clock steps back, as when a replica is promoted whose clock is
// behind. The ticks up to the one on record are not run again, and none after
// it is lost.
func TestNoTickIsLostWhenTheStoresClockSteps(t *testing.T) {
	t.Parallel()
	for _, step := range []time.Duration{
		-300 * time.Millisecond, -600 * time.Millisecond, -time.Second, -2600 * time.Millisecond,
		-3 * time.Second, -10 * time.Second, 300 * time.Millisecond,
	} {
		t.Run(step.String(), func(t *testing.T) {
			t.Parallel()
			inFleet(t, func(t *testing.T, f *fleet) {
				s := cronmw.Every(time.Second)
				for i := range 3 {
					f.add(time.Duration(i)*7*time.Millisecond).runs(s, nothing)
				}
				elapse(5*time.Second + 100*time.Millisecond)
				synctest.Wait()
				f.ahead.Store(int64(step))
				elapse(20 * time.Second)
				due := start.Add(6 * time.Second)
				for ; due.Before(f.storesNow().Add(-time.Second)); due = s.Next(due) {
					f.lateness(t, due)
				}
			})
		})
	}
}

// The store's clock was an hour ahead once, so that the record is of a tick to
// come. Each node says so at each tick, and how to go on.
func TestARecordFromTheFuture(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, f *fleet) {
		j := f.add(0).job(cronmw.Every(10*minute), nothing)
		f.ahead.Store(int64(time.Hour))
		elapse(10 * minute)
		require.Equal(t, renewer.OutcomeRan, j.Fire(t.Context()).Outcome)
		f.ahead.Store(0)
		for range 5 {
			elapse(10 * minute)
			got := j.Fire(t.Context())
			assert.Equal(t, renewer.OutcomeNotRun, got.Outcome)
			assert.Equal(t, f.storesNow(), got.Due)
			require.NotErrorIs(t, got.Err, renewer.ErrBusy)
			require.ErrorContains(t, got.Err, "2000-01-01T01:10:00Z")
			require.ErrorContains(t, got.Err, "delete the record")
			require.ErrorContains(t, got.Err, "lockbeat:{cron:job}:record")
			require.ErrorContains(t, got.Err, time.Until(start.Add(70*minute)).String()+" from now")
		}
		elapse(20 * minute)
		assert.Equal(t, renewer.OutcomeRan, j.Fire(t.Context()).Outcome)
	})
}
