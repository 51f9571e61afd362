package asynqmw_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/renewer"
	contract "github.com/lockbeat/lockbeat/renewer/store"
)

// served is the context of a task on a configured server of eight workers.
func served(t *testing.T) context.Context {
	base := asynqmw.Configure(asynq.Config{Concurrency: 8}).BaseContext()
	ctx, cancel := context.WithCancel(base)
	t.Cleanup(cancel)
	return ctx
}

func TestHowManyTasksWaitInSlots(t *testing.T) {
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
		fill := func(s asynqmw.Slots, last bool, name func(i int) string) (n int) {
			for i := range c.workers {
				if s.Take(nil, name(i), last) {
					n++
				}
			}
			return n
		}
		each := func(i int) string { return fmt.Sprint("u", i) }
		one := func(int) string { return "u1" }
		s := asynqmw.NewSlots(c.workers)
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
	assert.Equal(t, runtime.NumCPU()/2 > 0, asynqmw.NewSlots(0).Take(nil, "u1", false),
		"asynq's default is a worker for each processor")
	s := asynqmw.NewSlots(8)
	k, _ := scripted(t)
	assert.True(t, s.Take(nil, "u1", false))
	assert.True(t, s.Take(k, "u1", false), "of another store's locks")
}

// A task that went back after its wait leaves its room to the next, and so does one that runs.
func TestRoomInSlotsIsGivenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, store := scripted(t)
		ctx, done := served(t), make(chan struct{})
		h := asynqmw.Handle(k, byUser, func(context.Context, order) error {
			<-done
			return nil
		})
		for i := range 8 {
			payload := fmt.Sprintf(`{"User":"%d"}`, i)
			go func() { assert.NoError(t, h.ProcessTask(ctx, task(payload))) }()
		}
		synctest.Wait()
		store.Overwrite("order:u1", contract.Holder{}, time.Hour)
		for range 8 {
			begun := time.Now()
			err := h.ProcessTask(ctx, task(`{"User":"u1"}`))
			require.ErrorIs(t, err, renewer.ErrHeld)
			assert.Equal(t, time.Second, time.Since(begun))
		}
		close(done)
		synctest.Wait()
	})
}
