package cronmw_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/cronmw"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// byTick counts the runs of each tick.
type byTick struct {
	mu    sync.Mutex
	runs  map[int64]int
	every time.Duration
}

// add adds a run on a node whose clock is ahead by so much.
func (c *byTick) add(ahead time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs[time.Now().Add(ahead).Truncate(c.every).Unix()]++
}

// A day of ticks on five nodes, whose clocks differ by nearly as much as
// may be, and each of which is now and then late to notice: one run a tick.
func TestOneRunATickWhateverTheClocks(t *testing.T) {
	t.Parallel()
	for _, every := range []time.Duration{time.Second, 7 * time.Second, minute} {
		t.Run(every.String(), func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, b *bed) {
				const n = 5
				s, got := cronmw.Every(every), &byTick{runs: make(map[int64]int), every: every}
				ctx, stop := context.WithCancel(t.Context())
				var all sync.WaitGroup
				for i := range n {
					// The clocks span a little less than half of
					// HoldAtLeast, and that is half of the interval, or 5 s.
					hold := min(cronmw.DefaultHoldAtLeast, every/2)
					ahead := time.Duration(i) * (hold/2 - time.Millisecond) / (n - 1)
					mine := skewed{s, ahead}
					j := b.job("node", mine, func(context.Context) error {
						got.add(ahead)
						return nil
					})
					require.Equal(t, hold, j.HoldAtLeast())
					all.Go(func() {
						ticker(ctx, mine, func() {
							elapse(rand.N(hold / 4))
							j.Run()
						})
					})
				}
				const ticks = 500
				elapse(time.Until(s.Next(time.Now())) + ticks*every - every/4)
				stop()
				all.Wait()
				assert.Len(t, got.runs, ticks)
				for tick, runs := range got.runs {
					assert.Equal(t, 1, runs, "tick %d", tick)
				}
				assert.Equal(t, ticks, b.log.count(cronmw.OutcomeRan))
				assert.Equal(t, (n-1)*ticks, b.log.count(cronmw.OutcomeSkipped))
			})
		})
	}
}

// The bound is one, and as stated: with clocks a moment further
// apart, and the worst of luck, a tick is run twice.
func TestTheBoundIsSharp(t *testing.T) {
	t.Parallel()
	const hold, moment = 4 * time.Second, 2 * time.Millisecond
	for _, c := range []struct {
		apart time.Duration
		want  cronmw.Outcome
	}{
		{hold / 2, cronmw.OutcomeSkipped},
		{hold/2 + moment, cronmw.OutcomeRan},
	} {
		inBubble(t, func(t *testing.T, b *bed) {
			first := b.job("first", cronmw.Every(minute), nothing, cronmw.HoldAtLeast(hold))
			behind := b.job("behind", skewed{cronmw.Every(minute), -c.apart}, nothing,
				cronmw.HoldAtLeast(hold))
			elapse(minute)
			require.Equal(t, cronmw.OutcomeRan, first.Fire(t.Context()).Outcome)
			// It notices as late as it may, and its request takes as long to arrive as it may.
			elapse(c.apart + hold/4 - moment/2)
			b.store.Script(script.Acquire, script.Pass().Slow(hold/4-moment/2))
			assert.Equal(t, c.want, behind.Fire(t.Context()).Outcome)
		})
	}
}
