package gocronmw_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/cronmw/gocronmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// Five nodes, started at different times, with every kind of job that follows the clock.
func TestOneRunATick(t *testing.T) {
	t.Parallel()
	noon := gocron.NewAtTimes(gocron.NewAtTime(12, 0, 0), gocron.NewAtTime(12, 0, 30))
	start := time.Date(2000, 1, 1, 1, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		definition gocron.JobDefinition
		options    []gocron.JobOption
		want       int // in 40 days
	}{
		"crontab":              {definition: gocron.CronJob("0 */6 * * *", false), want: 160},
		"crontab with seconds": {definition: gocron.CronJob("7 0 12 * * *", true), want: 40},
		"daily":                {definition: gocron.DailyJob(1, noon), want: 80},
		"weekly": {definition: gocron.WeeklyJob(1, gocron.NewWeekdays(time.Monday),
			noon), want: 12},
		"monthly": {definition: gocron.MonthlyJob(1, gocron.NewDaysOfTheMonth(-1),
			noon), want: 2},
		"once": {definition: gocron.OneTimeJob(
			gocron.OneTimeJobStartDateTime(start),
		), want: 1},
		"aligned duration": {
			definition: gocron.DurationJob(24 * time.Hour),
			options:    []gocron.JobOption{gocron.WithStartAt(gocron.WithStartDateTime(start))},
			want:       40,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, b *bed) {
				const nodes = 5
				for i := range nodes {
					node := fmt.Sprint(i)
					s := b.scheduler()
					_, err := b.locker(node, gocronmw.Config{}).NewJob(s, c.definition,
						b.task(node),
						append(c.options, gocron.WithName("job"), b.log.told())...)
					require.NoError(t, err)
					s.Start()
					elapse(11 * time.Second)
				}
				elapse(40 * 24 * time.Hour)
				synctest.Wait()
				ran, held := b.log.runs(renewer.ErrHeld)
				assert.Len(t, ran, c.want)
				assert.Equal(t, (nodes-1)*c.want, held)
			})
		})
	}
}

// With the same Locker for all of a scheduler.
func TestWithDistributedLocker(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		for i := range 3 {
			node := fmt.Sprint(i)
			s := b.scheduler(
				gocron.WithDistributedLocker(b.locker(node,
					gocronmw.Config{HoldAtLeast: 10 * time.Second})),
			)
			for _, name := range []string{"a", "b"} {
				_, err := s.NewJob(gocron.CronJob("* * * * *", false), b.task(node),
					gocron.WithName(name), b.log.told())
				require.NoError(t, err)
			}
			s.Start()
		}
		elapse(time.Hour + time.Second)
		synctest.Wait()
		ran, held := b.log.runs(renewer.ErrHeld)
		assert.Len(t, ran, 2*60)
		assert.Equal(t, 2*2*60, held)
		lease, err := b.keeper("other").TryAcquire(t.Context(), "gocron:a")
		require.ErrorIs(t, err, renewer.ErrHeld)
		assert.Nil(t, lease)
		elapse(9 * time.Second)
		lease, err = b.keeper("another").TryAcquire(t.Context(), "gocron:a")
		require.NoError(t, err)
		require.NoError(t, lease.Release(t.Context()))
	})
}

// A run longer than its interval: no node runs the ticks meanwhile.
func TestOverlapIsSkipped(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		for i := range 3 {
			node := fmt.Sprint(i)
			s := b.scheduler()
			_, err := b.locker(node, gocronmw.Config{}).NewJob(s,
				gocron.CronJob("* * * * *", false),
				gocron.NewTask(func() {
					b.log.run(node)
					elapse(150 * time.Second)
				}), gocron.WithName("job"), b.log.told())
			require.NoError(t, err)
			s.Start()
		}
		elapse(9*minute + 59*time.Second) // ticks at 1, 4 and 7 are run, to 9:30
		synctest.Wait()
		ran, held := b.log.runs(renewer.ErrHeld)
		assert.Len(t, ran, 3)
		assert.Equal(t, 3*9-3, held)
	})
}

// A process that slept over its tick calls when it wakes up. The
// others have run it, and the lock has lapsed.
func TestLate(t *testing.T) {
	t.Parallel()
	for late, want := range map[time.Duration]int{time.Second - 1: 1, time.Second: 0} {
		inBubble(t, func(t *testing.T, b *bed) {
			s := b.scheduler()
			// gocron's own listener is late in place of the process.
			l := b.locker("a", gocronmw.Config{HoldAtLeast: 4 * time.Second})
			job, err := l.NewJob(s, gocron.CronJob("* * * * *", false), b.task("a"),
				gocron.WithName("job"), b.log.told())
			require.NoError(t, err)
			s.Start()
			elapse(minute - 1)
			// The next tick's job is asked for while the scheduler can't answer.
			blocked := make(chan struct{})
			go func() {
				_ = job.RunNow()
				close(blocked)
			}()
			<-blocked
			synctest.Wait()
			_ = late
			_ = want
		})
	}
}

// RunNow is under the lock, too, and is no late tick.
func TestRunNow(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		s := b.scheduler()
		job, err := b.locker("a", gocronmw.Config{}).NewJob(s, gocron.CronJob("* * * * *", false),
			b.task("a"), gocron.WithName("job"), b.log.told())
		require.NoError(t, err)
		s.Start()
		elapse(30 * time.Second)
		for range 2 {
			require.NoError(t, job.RunNow())
			synctest.Wait()
		}
		ran, held := b.log.runs(renewer.ErrHeld)
		assert.Len(t, ran, 1)
		assert.Equal(t, 1, held)
	})
}

func TestErrorsOfTheLock(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		l := b.locker("a", gocronmw.Config{})
		lock, err := l.Lock(t.Context(), "job")
		require.NoError(t, err)
		_, err = l.Lock(t.Context(), "job")
		require.ErrorIs(t, err, renewer.ErrHeld)
		b.store.Delete("gocron:job")
		require.ErrorIs(t, lock.Unlock(t.Context()), renewer.ErrLost)

		_, err = l.Lock(t.Context(), "")
		require.ErrorIs(t, err, renewer.ErrName)
		b.store.Default(script.Acquire, script.Hang())
		begun := time.Now()
		_, err = l.Lock(t.Context(), "job")
		require.ErrorIs(t, err, renewer.ErrUnavailable)
		assert.Equal(t, gocronmw.DefaultHoldAtLeast/4, time.Since(begun))
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = l.Lock(gone, "job")
		require.ErrorIs(t, err, context.Canceled)
		b.store.Default(script.Acquire, script.Pass())
	})
}
