package cronmw_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
)

// startCron starts a cron that only tells the test, and stops it with what it
// runs.
func startCron(t *testing.T, opts ...cron.Option) *cron.Cron {
	t.Helper()
	c := cron.New(
		append([]cron.Option{cron.WithLocation(time.UTC), cron.WithLogger(cron.DiscardLogger)},
			opts...)...,
	)
	c.Start()
	t.Cleanup(func() { <-c.Stop().Done() })
	return c
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
			inFleet(t, func(t *testing.T, f *fleet) {
				for range 5 {
					_, err := f.add(0).AddFunc(startCron(t), spec, "job", nothing)
					require.NoError(t, err)
					elapse(11 * time.Second)
				}
				elapse(time.Hour)
				synctest.Wait()
				assert.Equal(t, want, f.count(renewer.OutcomeRan))
				assert.Equal(t, 4*want, f.count(renewer.OutcomeSkipped))
				assert.Zero(t, f.count(renewer.OutcomeMissed))
			})
		})
	}
}

// With seconds, by the cron's own parser, in its own zone, and in its chain.
func TestRobfigAsTheCronIs(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, f *fleet) {
		tokyo, err := time.LoadLocation("Asia/Tokyo")
		require.NoError(t, err)
		var chained atomic.Int64
		c := startCron(t, cron.WithSeconds(), cron.WithLocation(tokyo),
			cron.WithChain(func(j cron.Job) cron.Job {
				return cron.FuncJob(func() {
					chained.Add(1)
					j.Run()
				})
			}))
		id, err := f.add(0).AddFunc(c, "30 0 9 * * *", "job", func(context.Context) error {
			assert.Equal(t, "00:00:30", time.Now().UTC().Format(time.TimeOnly))
			return nil
		})
		require.NoError(t, err)
		assert.Len(t, c.Entries(), 1)
		elapse(49 * time.Hour)
		synctest.Wait()
		assert.Equal(t, 3, f.count(renewer.OutcomeRan))
		assert.EqualValues(t, 3, chained.Load())
		c.Remove(id)
		elapse(24 * time.Hour)
		assert.EqualValues(t, 3, chained.Load())
	})
}

func TestRobfigRefusals(t *testing.T) {
	t.Parallel()
	inFleet(t, func(t *testing.T, f *fleet) {
		n, c := f.add(0), startCron(t)
		for spec, want := range map[string]string{
			"every now and then": `job "job": expected exactly 5 fields`,
			"0 0 31 2 *":         "the schedule has no tick",
		} {
			_, err := n.AddFunc(c, spec, "job", nothing)
			require.ErrorIs(t, err, renewer.ErrConfig)
			require.ErrorContains(t, err, want)
		}
		assert.Empty(t, c.Entries())
	})
}
