package cronmw_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/cronmw"
	"github.com/lockbeat/lockbeat/renewer"
)

// quiet is a cron that only tells the test.
func quiet(opts ...cron.Option) *cron.Cron {
	return cron.New(
		append([]cron.Option{cron.WithLocation(time.UTC), cron.WithLogger(cron.DiscardLogger)},
			opts...)...,
	)
}

// running starts crons, and stops them with what they run when the test ends.
func running(t *testing.T, crons ...*cron.Cron) {
	t.Helper()
	for _, c := range crons {
		c.Start()
		t.Cleanup(func() { <-c.Stop().Done() })
	}
}

// The real robfig/cron on five nodes, started at different times.
func TestRobfigAddFunc(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]int{
		"*/5 * * * *": 12,
		"@hourly":     1,
		"@every 6m":   10,
	} {
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, b *bed) {
				for i := range 5 {
					c := quiet()
					_, err := b.node(fmt.Sprint(i)).AddFunc(c, spec, "job", nothing)
					require.NoError(t, err)
					running(t, c)
					elapse(11 * time.Second)
				}
				elapse(time.Hour)
				synctest.Wait()
				assert.Equal(t, want, b.log.count(cronmw.OutcomeRan))
				assert.Equal(t, 4*want, b.log.count(cronmw.OutcomeSkipped))
				assert.Zero(t, b.log.count(cronmw.OutcomeMissed))
			})
		})
	}
}

// A job that is added while the cron runs, with seconds, by the
// cron's own parser, in its own zone, and in its chain.
func TestRobfigAsTheCronIs(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		tokyo, err := time.LoadLocation("Asia/Tokyo")
		require.NoError(t, err)
		var chained atomic.Int64
		c := quiet(cron.WithSeconds(), cron.WithLocation(tokyo),
			cron.WithChain(func(j cron.Job) cron.Job {
				return cron.FuncJob(func() {
					chained.Add(1)
					j.Run()
				})
			}))
		running(t, c)
		n := b.node("a")
		id, err := n.AddFunc(c, "30 0 9 * * *", "job", func(context.Context) error {
			assert.Equal(t, "00:00:30", time.Now().UTC().Format(time.TimeOnly))
			return nil
		})
		require.NoError(t, err)
		assert.Len(t, c.Entries(), 1)
		elapse(49 * time.Hour)
		synctest.Wait()
		assert.Equal(t, 3, b.log.count(cronmw.OutcomeRan))
		assert.EqualValues(t, 3, chained.Load())
		assert.Zero(t, b.log.count(cronmw.OutcomeMissed))
		c.Remove(id)
		elapse(24 * time.Hour)
		assert.EqualValues(t, 3, chained.Load())
	})
}

func TestRobfigSchedule(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		for i, s := range []cron.Schedule{
			cronmw.Every(30 * time.Second),
			cron.Every(30 * time.Second),
		} {
			c := quiet()
			_, err := b.node(fmt.Sprint(i)).Schedule(c, s, "job", nothing)
			require.NoError(t, err)
			running(t, c)
			elapse(7 * time.Second)
		}
		elapse(time.Hour)
		synctest.Wait()
		assert.Equal(t, 120, b.log.count(cronmw.OutcomeRan), "cron.Every is read as Every")
		assert.Equal(t, 120, b.log.count(cronmw.OutcomeSkipped))
	})
}

// A job that is there already, for a cron that is there already.
func TestRobfigJobThatIsThere(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		runs := new(runs)
		var job cron.Job = cron.FuncJob(func() { runs.add() })
		for i := range 3 {
			c := quiet()
			_, err := b.node(fmt.Sprint(i)).AddFunc(c, "*/10 * * * *", "job",
				func(context.Context) error { job.Run(); return nil })
			require.NoError(t, err)
			running(t, c)
		}
		elapse(time.Hour + time.Second)
		assert.Len(t, runs.all(), 6)
		assert.Equal(t, 12, b.log.count(cronmw.OutcomeSkipped))
	})
}

func TestRobfigRefusals(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		n, c := b.node("a"), quiet()
		_, err := n.AddFunc(c, "every now and then", "job", nothing)
		require.ErrorIs(t, err, renewer.ErrConfig)
		require.ErrorContains(t, err, `job "job": expected exactly 5 fields`)
		_, err = n.AddFunc(c, "* * * * *", "job", nil)
		require.ErrorIs(t, err, renewer.ErrConfig)
		_, err = n.AddFunc(c, "0 0 31 2 *", "job", nothing)
		require.ErrorContains(t, err, "the schedule has no tick")
		_, err = n.Schedule(c, nil, "job", nothing)
		require.ErrorContains(t, err, "it needs a schedule")
		assert.Empty(t, c.Entries())
		_, err = n.AddFunc(nil, "* * * * *", "job", nothing)
		require.ErrorContains(t, err, "make one by cron.New")
		_, err = n.Schedule(nil, cronmw.Every(minute), "job", nothing)
		require.ErrorContains(t, err, "make one by cron.New")
	})
}
