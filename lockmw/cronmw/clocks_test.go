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

// Five nodes whose clocks are up to 10 minutes off, and each of which is late as a busy machine
// is: one run a tick, within the grace.
func TestOneRunATickWhateverTheClocks(t *testing.T) {
	t.Parallel()
	for _, every := range []time.Duration{time.Second, 7 * time.Second, minute, 24 * time.Hour} {
		t.Run(every.String(), func(t *testing.T) {
			t.Parallel()
			inFleet(t, func(t *testing.T, f *fleet) {
				const nodes, ticks = 5, 200
				s := cronmw.Every(every)
				for range nodes {
					m := f.add(rand.N(20*minute) - 10*minute)
					j := m.job(s, nothing)
					m.schedules(s, j, func() time.Duration { return rand.N(j.Grace() / 2) })
				}
				grace := min(every/2, cronmw.MaxGrace)
				elapse(2 * every) // all have called
				first := s.Next(time.Now())
				elapse(time.Until(first) + ticks*every - 1)
				for i := range ticks {
					late := f.lateness(t, first.Add(time.Duration(i)*every))
					require.GreaterOrEqual(t, late, time.Duration(0))
					require.Less(t, late, grace)
				}
				assert.Zero(t, f.log.count(cronmw.OutcomeNotRun))
			})
		})
	}
}

// The only node there is: whatever its clock shows, it runs each tick.
func TestALoneNodeWhateverItsClock(t *testing.T) {
	t.Parallel()
	odd := uneven{0, 7 * minute, 14 * minute, 56 * minute}
	for name, s := range map[string]cronmw.Schedule{
		"second": cronmw.Every(time.Second), "minute": cronmw.Every(minute),
		"hour": cronmw.Every(time.Hour), "uneven": odd,
	} {
		for _, ahead := range []time.Duration{
			0, 3 * time.Millisecond, -3 * time.Millisecond, 300 * time.Millisecond, 90 * time.Second,
			-90 * time.Second, 5 * minute, 10 * minute, -10 * minute, 29 * minute, 31 * minute,
			-23*time.Hour - 11*time.Second,
		} {
			t.Run(name+" "+ahead.String(), func(t *testing.T) {
				t.Parallel()
				inFleet(t, func(t *testing.T, f *fleet) {
					m := f.add(ahead)
					j := m.job(s, nothing)
					m.schedules(s, j, inTime)
					span := time.Hour
					if name == "second" {
						span = minute // there are ticks enough
					}
					elapse(2*span + time.Millisecond)
					due := s.Next(time.Now().Add(-span))
					for ; !due.Add(j.Grace()).After(time.Now()); due = s.Next(due) {
						require.Less(t, f.lateness(t, due), j.Grace())
					}
					assert.Zero(t, f.log.count(cronmw.OutcomeMissed))
					assert.Zero(t, f.log.count(cronmw.OutcomeNotRun))
					if ahead > 0 && ahead < minute {
						assert.Zero(t, f.lateness(t, start.Add(span)), "to the instant")
					}
				})
			})
		}
	}
}

// uneven has ticks at these times of each hour.
type uneven []time.Duration

func (u uneven) Next(t time.Time) time.Time {
	for hour := t.Truncate(time.Hour); ; hour = hour.Add(time.Hour) {
		for _, d := range u {
			if at := hour.Add(d); at.After(t) {
				return at
			}
		}
	}
}

// A node whose clock is ahead by 3 ms waits for 3 ms, and runs the tick when it is due.
func TestAheadByAMoment(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, f *fleet) {
		j := f.add(3*time.Millisecond).job(cronmw.Every(time.Hour), nothing)
		elapse(time.Hour - 3*time.Millisecond)
		got := j.Fire(t.Context())
		assert.Equal(t, cronmw.OutcomeRan, got.Outcome)
		assert.Equal(t, 3*time.Millisecond, got.Took)
		assert.Zero(t, f.lateness(t, start.Add(time.Hour)))
	})
}

// The store is away for 0.6 s around the tick of a daily job.
func TestTheStoreIsAwayAtTheTick(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, f *fleet) {
		s, due := cronmw.Every(24*time.Hour), start.Add(48*time.Hour)
		for _, ahead := range []time.Duration{0, 2 * time.Second, -minute} {
			m := f.add(ahead)
			m.schedules(s, m.job(s, nothing), inTime)
		}
		cut := func(away bool) {
			for _, m := range f.nodes {
				m.cut.Store(away)
			}
		}
		elapse(time.Until(due.Add(-300 * time.Millisecond)))
		cut(true)
		elapse(600 * time.Millisecond)
		cut(false)
		elapse(5 * minute)
		assert.Less(t, f.lateness(t, due), time.Second)
		assert.Zero(t, f.log.count(cronmw.OutcomeNotRun))

		t.Log("away for longer than the grace: each node says so")
		elapse(time.Until(due.Add(24*time.Hour - minute)))
		cut(true)
		elapse(24*time.Hour - time.Hour)
		cut(false)
		assert.Equal(t, 3, f.log.count(cronmw.OutcomeNotRun))
		elapse(2 * time.Hour)
		f.lateness(t, due.Add(48*time.Hour))
		assert.Equal(t, []int{1}, f.log.missed(), "and the next one that it was missed")
	})
}

// The only node is late by 1.3 s for its daily job.
func TestTheOnlyNodeIsLate(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, f *fleet) {
		j := f.add(0).job(cronmw.Every(24*time.Hour), nothing)
		elapse(24*time.Hour + 1300*time.Millisecond)
		assert.Equal(t, cronmw.OutcomeRan, j.Fire(t.Context()).Outcome)
	})
}

// A scheduler of robfig/cron is told when the tick is by the store's clock, so that nothing waits
// for long: after the first tick, when that clock was not known.
func TestRobfigGoesByTheStoresClock(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{47 * minute, -47 * minute, time.Second, -time.Second} {
		t.Run(ahead.String(), func(t *testing.T) {
			t.Parallel()
			inFleet(t, func(t *testing.T, f *fleet) {
				f.ahead.Store(int64(-ahead))
				m, c := f.add(0), quiet()
				running(t, c)
				s := cronmw.Every(time.Hour)
				_, err := m.node.Schedule(c, s, "job", nothing)
				require.NoError(t, err)
				elapse(10 * time.Hour)
				synctest.Wait()
				last := f.storesNow().Truncate(time.Hour)
				for _, tick := range f.log.ticks[2:] { // two were planned before
					assert.Equal(t, cronmw.OutcomeRan, tick.Outcome)
					assert.Less(t, tick.Took, time.Millisecond, "nothing waits")
				}
				assert.True(t, last.Equal(f.log.last().Due))
				assert.InDelta(t, 10, len(f.log.ticks), 1)
			})
		})
	}
}

// The store's clock steps back, as when a replica is promoted whose clock is behind. The ticks up to
// the one on record are not run again, and none after it is lost.
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
					c, m := quiet(), f.add(time.Duration(i)*7*time.Millisecond)
					running(t, c)
					m.inCron(c, s, nothing)
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

// The store's clock was an hour ahead once, so that the record is of a tick to come. Each node says
// so at each tick, and how to go on.
func TestARecordFromTheFuture(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, f *fleet) {
		j := f.add(0).job(cronmw.Every(10*minute), nothing)
		f.ahead.Store(int64(time.Hour))
		elapse(10 * minute)
		require.Equal(t, cronmw.OutcomeRan, j.Fire(t.Context()).Outcome)
		f.ahead.Store(0)
		for range 6 {
			elapse(10 * minute)
			got := j.Fire(t.Context())
			assert.Equal(t, cronmw.OutcomeNotRun, got.Outcome)
			assert.Equal(t, f.storesNow(), got.Due)
			require.ErrorIs(t, got.Err, cronmw.ErrRecordAhead)
			require.NotErrorIs(t, got.Err, renewer.ErrHeld)
			require.ErrorContains(t, got.Err, `"cron:job"`)
			require.ErrorContains(t, got.Err, "2000-01-01T01:10:00Z")
			require.ErrorContains(t, got.Err, "delete the record")
			require.ErrorContains(t, got.Err, "lockbeat:{cron:job}:record")
			if f.storesNow().Equal(start.Add(time.Hour)) {
				require.ErrorContains(t, got.Err, "10m0s from now")
				break
			}
		}
		elapse(20 * minute)
		assert.Equal(t, cronmw.OutcomeRan, j.Fire(t.Context()).Outcome)
	})
}
