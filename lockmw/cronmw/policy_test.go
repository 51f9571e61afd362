package cronmw_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/cronmw"
)

// runs are when runs have begun.
type runs struct {
	mu    sync.Mutex
	begun []time.Duration // from the beginning of the bubble
}

// add adds one, and returns how many there are.
func (r *runs) add() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun = append(r.begun, time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)))
	return len(r.begun)
}

// all are all of them.
func (r *runs) all() []time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.begun)
}

// nodes runs the same job on n nodes with the same clock, until stop is called.
func (b *bed) nodes(
	n int, s cronmw.Schedule, fn func(context.Context) error, opts ...cronmw.Option,
) (stop func()) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	var all sync.WaitGroup
	for i := range n {
		j := b.job(fmt.Sprintf("node-%d", i+1), s, fn, opts...)
		all.Go(func() { ticker(ctx, s, j.Run) })
	}
	return func() {
		cancel()
		all.Wait()
	}
}

// A run longer than its interval: no node runs the ticks meanwhile.
func TestOverlapIsSkipped(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		var runs runs
		stop := b.nodes(3, cronmw.Every(minute), func(context.Context) error {
			runs.add()
			elapse(150 * time.Second)
			return nil
		})
		elapse(10*minute + time.Second)
		stop()
		assert.Equal(t, []time.Duration{minute, 4 * minute, 7 * minute, 10 * minute}, runs.all())
		assert.Equal(t, 30-4, b.log.count(cronmw.OutcomeSkipped))
	})
}

// It is skipped at once, also where the schedule's zone is half an hour from full hours.
func TestOverlapIsSkippedAtOnceInAnyZone(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		india, err := time.LoadLocation("Asia/Kolkata")
		require.NoError(t, err)
		s, err := cron.ParseStandard("30 * * * *")
		require.NoError(t, err)
		stop := b.nodes(2, inLocation{s, india}, func(context.Context) error {
			elapse(90 * minute)
			return nil
		})
		elapse(2*time.Hour + time.Second)
		skipped := 0
		for _, tick := range b.log.all() {
			if tick.Outcome == cronmw.OutcomeSkipped {
				skipped++
				assert.Less(t, tick.Took, time.Second)
			}
		}
		assert.Equal(t, 3, skipped)
		stop()
	})
}

// With Wait, the one node that has taken such a tick runs it afterwards, the others do not.
func TestOverlapIsWaitedFor(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		var runs runs
		stop := b.nodes(3, cronmw.Every(minute), func(context.Context) error {
			if runs.add() == 1 {
				elapse(90 * time.Second)
			}
			return nil
		}, cronmw.Wait(minute))
		elapse(4*minute + time.Second)
		stop()
		assert.Equal(t, []time.Duration{minute, 150 * time.Second, 3 * minute, 4 * minute},
			runs.all())
		assert.Equal(t, 12-4, b.log.count(cronmw.OutcomeSkipped))
	})
}

// Runs that are waited for do not overlap either, and who has waited for too long gives up.
func TestWaitRunsOut(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		var runs runs
		stop := b.nodes(3, cronmw.Every(minute), func(context.Context) error {
			runs.add()
			elapse(150 * time.Second)
			return nil
		}, cronmw.Wait(50*time.Second))
		elapse(4*minute + time.Second)
		stop()
		// The second tick waits from 2:00 to 2:50, the third from
		// 3:00, and gets its turn at 3:30; the fourth waits in vain.
		assert.Equal(t, []time.Duration{minute, 210 * time.Second}, runs.all())
		assert.Equal(t, 12-2, b.log.count(cronmw.OutcomeSkipped))
	})
}

// A tick for which no node was there is not caught up.
func TestMissedTicksAreNotCaughtUp(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		var runs runs
		fn := func(context.Context) error { runs.add(); return nil }
		stop := b.nodes(2, cronmw.Every(minute), fn)
		elapse(2*minute + time.Second)
		stop()
		elapse(time.Hour)
		assert.Len(t, runs.all(), 2)
		stop = b.nodes(2, cronmw.Every(minute), fn)
		elapse(minute)
		stop()
		assert.Len(t, runs.all(), 3)
	})
}

// A process that slept over its tick calls when it wakes up, and runs it if no other has.
func TestLate(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		runs := 0
		fn := func(context.Context) error { runs++; return nil }
		j := b.job("a", cronmw.Every(minute), fn, cronmw.Grace(4*time.Second))
		elapse(minute + 4*time.Second - 1)
		assert.Equal(t, cronmw.OutcomeRan, j.Fire(t.Context()).Outcome)
		assert.Equal(t, cronmw.OutcomeSkipped, j.Fire(t.Context()).Outcome, "it has been run")
		elapse(5*minute + 1)
		got := j.Fire(t.Context())
		assert.Equal(t, cronmw.OutcomeMissed, got.Outcome)
		assert.Equal(t, 4, got.Missed, "before the one at 6:00")
		require.NoError(t, got.Err)
		assert.Equal(t, got, b.log.last())
		elapse(minute - 4*time.Second)
		got = j.Fire(t.Context())
		assert.Equal(t, cronmw.OutcomeRan, got.Outcome)
		assert.Equal(t, 5, got.Missed)
		elapse(30 * time.Second)
		assert.Equal(t, cronmw.OutcomeSkipped, j.Fire(t.Context()).Outcome, "no tick was due")
		assert.Equal(t, 2, runs)
	})
}

// Nothing is due after a schedule's last tick.
func TestAfterTheLastTick(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		j := b.job("a", once(time.Now().Add(minute)), nothing)
		assert.Equal(t, cronmw.MaxGrace, j.Grace())
		elapse(minute)
		assert.Equal(t, cronmw.OutcomeRan, j.Fire(t.Context()).Outcome)
		elapse(24 * time.Hour)
		assert.Equal(t, cronmw.OutcomeSkipped, j.Fire(t.Context()).Outcome)
		assert.Zero(t, b.history().Next)
	})
}

// once is a schedule with one tick.
type once time.Time

func (o once) Next(t time.Time) time.Time {
	if at := time.Time(o); t.Before(at) {
		return at
	}
	return time.Time{}
}
