package asynqmw_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
)

// Forty tasks of each of two users, three at a time of each and five in all, on
// two servers: by limits that they name, none runs beside too many, no attempt
// is used up, and nothing is left behind. So it is of locks that each task
// needs two of.
func TestSeveralInLine(t *testing.T) {
	t.Parallel()
	const tasks = 15
	for name, c := range map[string]struct {
		key func(order) lockmw.Set
		one int32 // user's tasks run at once
		all int32 // tasks run at once
	}{
		"limits": {func(o order) lockmw.Set {
			return lockmw.All(lockmw.Limit(byUser(o), 3), lockmw.Limit("order:all", 5))
		}, 3, 5},
		"locks": {func(o order) lockmw.Set { return lockmw.All(byUser(o), "order:all") }, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			queues, locks := apart(t)
			var ofOne, ofAll gauge
			one := map[string]*gauge{"u1": &ofOne, "u2": new(gauge)}
			for range 2 {
				queues.serve(locks.keeper(), wrap(c.key,
					func(_ context.Context, o order) error {
						defer ofAll.begin()()
						defer one[o.User].begin()()
						<-time.After(10 * time.Millisecond)
						return nil
					}, retriesIn), workers(10))
			}
			for i := range 2 * tasks {
				queues.enqueue([]string{"u1", "u2"}[i%2])
			}
			queues.awaitDone(2 * tasks)
			assert.LessOrEqual(t, ofOne.most.Load(), c.one)
			assert.LessOrEqual(t, ofAll.most.Load(), c.all)
			require.Eventually(t, func() bool {
				keys, err := locks.Do("KEYS", "lockbeat:{order:*").AsStrSlice()
				require.NoError(t, err)
				return len(keys) == 0
			}, soon, tick)
		})
	}
}

// gauge counts who runs at once, and how many did at most.
type gauge struct{ now, most atomic.Int32 }

func (g *gauge) begin() (end func()) {
	n, most := g.now.Add(1), g.most.Load()
	for n > most && !g.most.CompareAndSwap(most, n) {
		most = g.most.Load()
	}
	return func() { g.now.Add(-1) }
}

// Behind a limit that holders fill who are no tasks, one task waits in its
// worker's slot, and at the release of several slots as many tasks are called,
// in order.
func TestAFullLimitKeepsNoWorker(t *testing.T) {
	t.Parallel()
	queues, locks := apart(t)
	holder := locks.keeper()
	var leases []*renewer.Lease
	for range 3 {
		lease, err := holder.Acquire(t.Context(), renewer.Request{
			Name: "order:u1", Limit: func() int { return 3 },
		})
		require.NoError(t, err)
		leases = append(leases, lease)
	}
	var ran gauge
	proceed := make(chan struct{})
	three := func(o order) lockmw.Set { return lockmw.Limit(byUser(o), 3) }
	queues.serve(locks.keeper(), wrap(three, func(context.Context, order) error {
		defer ran.begin()()
		<-proceed
		return nil
	}, lockmw.Wait(time.Minute)), workers(8))
	for range 7 {
		queues.enqueue("u1")
	}
	require.Eventually(t, func() bool {
		queue, err := queues.inspector.GetQueueInfo("default")
		return err == nil && queue.Active == 1 && queue.Retry == 6
	}, soon, tick, "one waits, the others went back")
	for _, lease := range leases {
		require.NoError(t, lease.Release(t.Context()))
	}
	require.Eventually(t, func() bool { return ran.now.Load() == 3 }, goesOn, tick)
	close(proceed)
	queues.awaitDone(7)
	assert.EqualValues(t, 3, ran.most.Load())
}
