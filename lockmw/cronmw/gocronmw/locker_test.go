package gocronmw_test

import (
	"context"
	"errors"
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

// A job whose ticks count from each node's start has one run an interval, all the same.
func TestDurationsFromEachNodesStart(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		for i := range 3 {
			s := b.scheduler()
			_, err := b.locker(fmt.Sprint(i), gocronmw.Config{}).NewJob(s,
				gocron.DurationJob(minute), b.task(fmt.Sprint(i)), gocron.WithName("job"),
				b.log.told())
			require.NoError(t, err)
			s.Start()
			elapse(17 * time.Second)
		}
		elapse(time.Hour - 51*time.Second)
		synctest.Wait()
		ran, held := b.log.runs(renewer.ErrHeld)
		assert.Len(t, ran, 60)
		assert.InDelta(t, 2*60, held, 3)
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

// The store is away at the tick: it is run when the store is back, within the grace, or not at all.
func TestTheStoreIsAway(t *testing.T) {
	t.Parallel()
	for away, want := range map[time.Duration]error{
		3 * time.Second: nil, 5 * time.Second: renewer.ErrUnavailable,
	} {
		inBubble(t, func(t *testing.T, b *bed) {
			s := b.scheduler()
			_, err := b.locker("a", gocronmw.Config{Grace: 4 * time.Second}).NewJob(s,
				gocron.CronJob("* * * * *", false), b.task("a"), gocron.WithName("job"),
				b.log.told())
			require.NoError(t, err)
			s.Start()
			elapse(minute - 1)
			b.store.Default(script.Read, script.Fail(errors.New("connection refused")))
			elapse(away)
			b.store.Default(script.Read, script.Pass())
			elapse(time.Second)
			synctest.Wait()
			ran, failed := b.log.runs(renewer.ErrUnavailable)
			if want == nil {
				assert.Len(t, ran, 1)
			} else {
				assert.Empty(t, ran)
				assert.Equal(t, 1, failed)
			}
		})
	}
}

// RunNow is under the lock, too, and is no tick: it takes none, also shortly before one.
func TestRunNow(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		s := b.scheduler()
		job, err := b.locker("a", gocronmw.Config{Grace: minute}).NewJob(s,
			gocron.CronJob("* * * * *", false), b.task("a"), gocron.WithName("job"), b.log.told())
		require.NoError(t, err)
		s.Start()
		elapse(30 * time.Second)
		for range 2 {
			require.NoError(t, job.RunNow())
			synctest.Wait()
		}
		ran, _ := b.log.runs(nil)
		require.Len(t, ran, 2, "at once")
		other, err := b.keeper("b").TryAcquire(t.Context(), "gocron:job")
		require.NoError(t, err)
		for range 2 {
			require.NoError(t, job.RunNow())
		}
		synctest.Wait()
		require.NoError(t, other.Release(t.Context()))
		ran, held := b.log.runs(renewer.ErrHeld)
		assert.Len(t, ran, 2)
		assert.Equal(t, 2, held)
		elapse(31 * time.Second)
		ran, _ = b.log.runs(nil)
		assert.Len(t, ran, 3, "and the tick")
		require.NoError(t, job.RunNow())
		synctest.Wait()
		elapse(minute)
		ran, _ = b.log.runs(nil)
		assert.Len(t, ran, 5)
	})
}

// behind is a store whose clock is a second behind this node's.
type behind struct{ *script.Store }

func (b behind) Read(ctx context.Context, names []string) []renewer.Seen {
	return putBack(b.Store.Read(ctx, names))
}

func (b behind) Prepare(ctx context.Context, terms []renewer.Term) []renewer.Seen {
	return putBack(b.Store.Prepare(ctx, terms))
}

func putBack(all []renewer.Seen) []renewer.Seen {
	for i := range all {
		all[i].Now = all[i].Now.Add(-time.Second)
	}
	return all
}

// A node whose clock is ahead waits for the tick.
func TestAhead(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		k, err := renewer.New(behind{b.store}, renewer.Config{TTL: renewer.DefaultTTL})
		require.NoError(t, err)
		l, err := gocronmw.NewLocker(k, gocronmw.Config{})
		require.NoError(t, err)
		s := b.scheduler()
		_, err = l.NewJob(s, gocron.CronJob("* * * * *", false), b.task("a"),
			gocron.WithName("job"))
		require.NoError(t, err)
		s.Start()
		due := time.Now().Add(minute)
		elapse(minute + 2*time.Second)
		synctest.Wait()
		require.Len(t, b.log.at, 1)
		assert.Equal(t, due.Add(time.Second), b.log.at[0])
		stop(t, s)
		require.NoError(t, k.Shutdown(t.Context()))
	})
}
