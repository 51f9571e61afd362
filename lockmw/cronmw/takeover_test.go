package cronmw_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/cronmw"
	"github.com/lockbeat/lockbeat/renewer"
)

// A run that is cut, or dies with its node. By TakeOver a node that stands by
// runs the tick again: at once, or when the lock has lapsed.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(context.Context, *machine) error
		runs int
		once bool // the lock is freed
	}{
		"it is told to stop": {func(ctx context.Context, m *machine) error {
			m.stop()
			return untilCut(ctx)
		}, 2, true},
		"it loses its lock": {func(ctx context.Context, m *machine) error {
			m.gone.Store(true)
			return untilCut(ctx)
		}, 2, false},
		"it panics": {func(context.Context, *machine) error { panic("no luck") }, 2, true},
		"it exits": {
			func(context.Context, *machine) error { runtime.Goexit(); return nil }, 2, true,
		},
		"it dies": {func(ctx context.Context, m *machine) error {
			m.die()
			return untilCut(ctx)
		}, 2, false},
		"it is done when told to stop": {func(_ context.Context, m *machine) error {
			m.stop()
			return nil
		}, 1, true},
		"it fails": {func(context.Context, *machine) error { return errCut }, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inFleet(t, func(t *testing.T, f *fleet) {
				s, due := cronmw.Every(time.Hour), start.Add(time.Hour)
				var ended time.Time
				var attempts []int
				for i := range 3 {
					m := f.add(time.Duration(i) * time.Millisecond)
					j := m.job(s, func(ctx context.Context) error {
						run := cronmw.Current(ctx)
						attempts = append(attempts, run.Attempt)
						assert.Equal(t, "job", run.Job)
						if run.Attempt > 1 {
							return nil
						}
						elapse(10 * time.Second)
						defer func() { ended = time.Now() }()
						return c.end(ctx, m)
					}, cronmw.TakeOver(3))
					m.calls(s, func() {
						defer func() { _ = recover() }()
						j.Run()
					})
				}
				elapse(time.Hour + 10*minute)
				synctest.Wait()
				require.Equal(t, []int{1, 2}[:c.runs], attempts)
				if c.once {
					require.Equal(t, c.runs-1, f.count(renewer.OutcomeCut), "by the node that ran it")
				}
				if last := f.begins(due)[c.runs-1]; c.runs == 2 && c.once {
					assert.Equal(t, ended, last, "at once")
				} else if c.runs == 2 {
					assert.InDelta(t, renewer.DefaultTTL, last.Sub(due)-10*time.Second,
						float64(renewer.DefaultTTL/2))
				}
			})
		})
	}
}

// Without TakeOver nothing runs the rest, and the next tick is run elsewhere.
func TestANodeDies(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, f *fleet) {
		s := cronmw.Every(minute)
		first := f.add(0)
		first.runs(s, func(ctx context.Context) error {
			elapse(5 * time.Second)
			first.die()
			return untilCut(ctx)
		})
		for range 3 {
			f.add(10*time.Millisecond).runs(s, nothing) // it waits, and so comes second
		}
		elapse(3*minute + time.Second)
		synctest.Wait()
		for i := range 3 {
			f.lateness(t, start.Add(time.Duration(i+1)*minute))
		}
		assert.Empty(t, f.missed(), "it had begun")
	})
}

// The last run that a tick may have stays cut, and is told.
func TestTheLastRunStaysCut(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, f *fleet) {
		s, due := cronmw.Every(time.Hour), start.Add(time.Hour)
		for range 4 {
			m := f.add(0)
			m.runs(s, func(ctx context.Context) error {
				m.stop()
				return untilCut(ctx)
			}, cronmw.TakeOver(2))
		}
		elapse(time.Hour + minute)
		synctest.Wait()
		left := make(map[int]int)
		for _, tick := range f.all() {
			if tick.Outcome == renewer.OutcomeCut {
				require.ErrorIs(t, tick.Err, context.Canceled)
				left[tick.Attempt] = tick.Left
			}
		}
		assert.Equal(t, map[int]int{1: 1, 2: 0}, left)
		f.add(0).job(s, nothing, cronmw.TakeOver(2), cronmw.RunIfMissed())
		elapse(minute)
		assert.Len(t, f.begins(due), 2, "a node that starts runs it no more")
	})
}

// The only node lost its lock, and lives: it runs the tick again itself.
func TestALoneNodeTakesItsOwnCutRunOver(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, f *fleet) {
		m := f.add(0)
		m.runs(cronmw.Every(time.Hour), func(ctx context.Context) error {
			if cronmw.Current(ctx).Attempt > 1 {
				return nil
			}
			m.gone.Store(true)
			return untilCut(ctx)
		}, cronmw.TakeOver(2))
		elapse(time.Hour + minute)
		synctest.Wait()
		told := f.all()
		require.Len(t, told, 2)
		assert.Equal(t, renewer.OutcomeCut, told[0].Outcome)
		require.ErrorIs(t, told[0].Err, renewer.ErrLost)
		assert.Equal(t, renewer.OutcomeRan, told[1].Outcome)
		assert.Equal(t, 2, told[1].Attempt)
	})
}

// The only node was told to stop in the middle of a run, or died. The next one
// that starts runs it again, once, and ticks that came due meanwhile were
// passed over.
func TestTakeOverAfterARestart(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*machine){
		"stop": func(m *machine) { m.stop() }, "die": (*machine).die,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inFleet(t, func(t *testing.T, f *fleet) {
				s := cronmw.Every(minute)
				m := f.add(0)
				m.runs(s, func(ctx context.Context) error {
					elapse(100 * time.Second)
					end(m)
					return untilCut(ctx)
				}, cronmw.TakeOver(2))
				elapse(4*minute - 20*time.Second)
				for range 2 {
					f.add(0).job(s, nothing, cronmw.TakeOver(2), cronmw.RunIfMissed())
				}
				synctest.Wait()
				assert.Len(t, f.begins(start.Add(minute)), 2)
				assert.Equal(t, renewer.OutcomeRan, f.last().Outcome)
				assert.Equal(t, 2, f.last().Attempt)
				assert.Empty(t, f.missed())
			})
		})
	}
}
