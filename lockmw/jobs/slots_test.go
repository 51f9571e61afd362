package jobs_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/jobs"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

func TestHowManyJobsWaitInSlots(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		workers int
		half    int // with attempts to spare, of many keys
		few     int // of one key
		last    int // on their last attempt, beside those
	}{
		{workers: 1, half: 0, few: 0, last: 1},
		{workers: 2, half: 1, few: 1, last: 1},
		{workers: 8, half: 4, few: 1, last: 4},
		{workers: 20, half: 10, few: 2, last: 10},
		{workers: 100, half: 50, few: 12, last: 50},
	} {
		fill := func(s *jobs.Slots, last bool, name func(i int) string) (n int) {
			for i := range c.workers {
				if s.Take(nil, name(i), last) {
					n++
				}
			}
			return n
		}
		each := func(i int) string { return fmt.Sprint("u", i) }
		one := func(int) string { return "u1" }
		s := jobs.NewSlots(c.workers)
		assert.Equal(t, c.half, fill(s, false, each), c.workers)
		assert.Equal(t, c.last, fill(s, true, each), c.workers)
		assert.Zero(t, fill(s, false, each), c.workers)
		for i := range c.last {
			s.Leave(nil, each(i), true)
		}
		for i := range c.half {
			s.Leave(nil, each(i), false)
		}
		assert.Zero(t, s.Names(), c.workers)
		assert.Equal(t, c.few, fill(s, false, one), c.workers)
		assert.Equal(t, 1, fill(s, true, one), "%d workers: whatever waits", c.workers)
	}
	assert.Equal(t, runtime.NumCPU()/2 > 0, jobs.NewSlots(0).Take(nil, "u1", false),
		"a worker for each processor")
	one := new(jobs.Slots)
	assert.False(t, one.Take(nil, "u1", false))
	assert.True(t, one.Take(nil, "u1", true))
	s := jobs.NewSlots(8)
	k, err := renewer.New(script.New(), renewer.Config{TTL: renewer.DefaultTTL})
	require.NoError(t, err)
	defer func() { assert.NoError(t, k.Shutdown(t.Context())) }()
	assert.True(t, s.Take(nil, "u1", false))
	assert.True(t, s.Take(k, "u1", false), "of another store's locks")
}

// A job that went back after its wait leaves its room to the next, and so does
// one that runs.
func TestRoomInSlotsIsGivenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, s := newKeeper(t)
		done := make(chan struct{})
		run := jobs.Wrap(k, itself, func(context.Context, string) error { <-done; return nil })
		d := jobs.Delivery{Kind: "email", Slots: jobs.NewSlots(8)}
		for i := range 4 { // all that may
			name := fmt.Sprint("waits ", i)
			lease, err := k.Acquire(t.Context(), renewer.Request{Name: name})
			require.NoError(t, err)
			go func() { assert.Equal(t, jobs.OutcomeRan, run(t.Context(), d, name).Outcome) }()
			synctest.Wait()
			require.NoError(t, lease.Release(t.Context()))
			synctest.Wait()
		}
		s.Overwrite("u1", store.Holder{}, time.Hour)
		for range 8 {
			begun := time.Now()
			require.ErrorIs(t, run(t.Context(), d, "u1").Err, renewer.ErrBusy)
			assert.Equal(t, time.Second, time.Since(begun), "it found room")
		}
		close(done)
		synctest.Wait()
	})
}
