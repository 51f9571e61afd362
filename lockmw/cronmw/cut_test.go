package cronmw_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/cronmw"
	"github.com/lockbeat/lockbeat/renewer"
)

// untilCut is a job's function that goes on until its context ends.
func untilCut(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// A run that is cut while other nodes stand by: one of them runs the tick again, and does not wait
// for the lock to lapse.
func TestACutRunIsTakenOver(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(context.Context, *machine) error{
		"the node is told to stop": func(ctx context.Context, m *machine) error {
			m.stop()
			return untilCut(ctx)
		},
		"the lock is lost": func(ctx context.Context, m *machine) error {
			m.gone.Store(true)
			return untilCut(ctx)
		},
		"panic":  func(context.Context, *machine) error { panic("no luck") },
		"Goexit": func(context.Context, *machine) error { runtime.Goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inFleet(t, func(t *testing.T, f *fleet) {
				s, due := cronmw.Every(time.Hour), start.Add(time.Hour)
				var attempts []int
				var ended time.Time
				for i := range 3 {
					m := f.add(time.Duration(i) * time.Millisecond)
					j := m.job(s, func(ctx context.Context) error {
						attempts = append(attempts, cronmw.Current(ctx).Attempt)
						if len(attempts) > 1 {
							return nil
						}
						elapse(10 * time.Second)
						defer func() { ended = time.Now() }()
						return cut(ctx, m)
					}, cronmw.TakeOver(3))
					m.schedulesJob(s, func() {
						defer func() { _ = recover() }()
						j.Run()
					})
				}
				elapse(time.Hour + 10*minute)
				synctest.Wait()
				require.Equal(t, []int{1, 2}, attempts)
				if name != "the lock is lost" { // nothing frees that one before its TTL
					assert.Equal(t, ended, f.begins(due)[1], "at once")
				}
				last := f.history()
				assert.Equal(t, 2, last.Attempt)
				assert.Equal(t, cronmw.ResultSucceeded, last.Result)
			})
		})
	}
}

// The last run that a tick may have stays cut, and is told.
func TestTheLastRunStaysCut(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, f *fleet) {
		s, due := cronmw.Every(time.Hour), start.Add(time.Hour)
		for range 4 {
			m := f.add(0)
			m.schedules(s, m.job(s, func(ctx context.Context) error {
				m.stop()
				return untilCut(ctx)
			}, cronmw.TakeOver(2)), inTime)
		}
		elapse(time.Hour + minute)
		synctest.Wait()
		assert.Len(t, f.begins(due), 2)
		left := make(map[int]int)
		for _, tick := range f.log.all() {
			if tick.Outcome == cronmw.OutcomeCut {
				require.ErrorIs(t, tick.Err, context.Canceled)
				left[tick.Attempt] = tick.Left
			}
		}
		assert.Equal(t, map[int]int{1: 1, 2: 0}, left)
		last := f.history()
		assert.Equal(t, cronmw.ResultCut, last.Result)
		assert.Equal(t, last.Begun, last.Ended)

		f.add(0).job(s, nothing, cronmw.TakeOver(2), cronmw.RunIfMissed())
		elapse(minute)
		assert.Len(t, f.begins(due), 2, "a node that starts runs it no more")
	})
}

// The only node lost its lock, and lives: it runs the tick again itself.
func TestALoneNodeTakesItsOwnCutRunOver(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, f *fleet) {
		s, due := cronmw.Every(time.Hour), start.Add(time.Hour)
		m := f.add(0)
		m.schedules(s, m.job(s, func(ctx context.Context) error {
			if cronmw.Current(ctx).Attempt > 1 {
				return nil
			}
			m.gone.Store(true)
			return untilCut(ctx)
		}, cronmw.TakeOver(2)), inTime)
		elapse(time.Hour + minute)
		synctest.Wait()
		require.Len(t, f.begins(due), 2)
		told := f.log.all()
		require.Len(t, told, 2)
		assert.Equal(t, cronmw.OutcomeCut, told[0].Outcome)
		require.ErrorIs(t, told[0].Err, renewer.ErrLost)
		assert.Equal(t, cronmw.OutcomeRan, told[1].Outcome)
		assert.Equal(t, 2, told[1].Attempt)
	})
}

// The only node was told to stop in the middle of a run. The next one that starts runs it again,
// and ticks that came due meanwhile were passed over.
func TestACutRunIsTakenOverAfterARestart(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, f *fleet) {
		s := cronmw.Every(minute)
		m := f.add(0)
		m.schedules(s, m.job(s, func(ctx context.Context) error {
			elapse(150 * time.Second)
			m.stop()
			return untilCut(ctx)
		}, cronmw.TakeOver(2)), inTime)
		elapse(4*minute - 20*time.Second)
		f.add(0).job(s, nothing, cronmw.TakeOver(2), cronmw.RunIfMissed())
		synctest.Wait()
		assert.Len(t, f.begins(start.Add(minute)), 2)
		assert.Equal(t, cronmw.OutcomeRan, f.log.last().Outcome)
		assert.Empty(t, f.log.missed())
	})
}

// A run that returned no error is done, though its context had ended; one that failed while its
// context lived has failed. Neither is run again.
func TestWhatIsNotCut(t *testing.T) {
	t.Parallel()
	for want, fn := range map[cronmw.Result]func(*machine) error{
		cronmw.ResultSucceeded: func(m *machine) error { m.stop(); return nil },
		cronmw.ResultFailed:    func(*machine) error { return errCut },
	} {
		t.Run(string(want), func(t *testing.T) {
			t.Parallel()
			inFleet(t, func(t *testing.T, f *fleet) {
				s := cronmw.Every(time.Hour)
				var ran atomic.Int64
				for range 3 {
					m := f.add(0)
					m.schedules(s, m.job(s, func(context.Context) error {
						ran.Add(1)
						elapse(minute)
						return fn(m)
					}, cronmw.TakeOver(3)), inTime)
				}
				elapse(time.Hour + 30*minute)
				synctest.Wait()
				assert.EqualValues(t, 1, ran.Load())
				assert.Equal(t, 2, f.log.count(cronmw.OutcomeSkipped), "they stood by")
				assert.Equal(t, want, f.history().Result)
			})
		})
	}
}
