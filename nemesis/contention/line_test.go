package contention_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// Who is next is no adapter's affair: processes stand in line.
func TestManyProcessesHaveAHotKeyInOrder(t *testing.T) {
	t.Parallel()
	const processes, rounds = 64, 10
	s := &scene{t: t, redis: redistest.Start(t)}
	s.other = s.newKeeper(nodeMark + "holder")
	var keepers [processes]*renewer.Keeper
	for i := range keepers {
		keepers[i] = s.newKeeper(nodeMark + "waiter")
	}
	take := func(i int, do func()) {
		_, err := lockmw.Do(t.Context(), keepers[i], key,
			func(context.Context) (any, error) { do(); return nil, nil }, lockmw.Wait(soon))
		assert.NoError(t, err)
	}
	release := s.holds(key)
	var calls sync.WaitGroup
	type grant struct {
		to int
		at time.Time
	}
	had := make(chan grant, processes)
	for i := range keepers {
		calls.Go(func() { take(i, func() { had <- grant{i, time.Now()} }) })
		require.Eventually(t, func() bool {
			n, err := s.redis.Do("ZCARD", redisstore.DefaultPrefix+"{"+key+"}:waiters").AsInt64()
			return err == nil && n == int64(i+1)
		}, soon, time.Millisecond)
	}
	last, inTime := time.Now(), true
	release()
	for i := range keepers {
		g := <-had
		// One that stands still for its turn, a second, is passed over: that is no fault. It is less
		// what the clocks may differ.
		inTime = inTime && g.at.Sub(last) < 900*time.Millisecond
		if last = g.at; inTime {
			require.Equal(t, i, g.to)
		}
	}

	// Now each comes again as soon as it has had the lock. One that comes while its request is under
	// way may be before it, and so may all others if the machine is busy; but not again and again.
	// Those that stand still meanwhile are few.
	var grants, long atomic.Int64
	for i := range processes {
		calls.Go(func() {
			for range rounds {
				before := grants.Load()
				take(i, func() {
					if grants.Add(1)-1-before >= 3*processes {
						long.Add(1)
					}
				})
			}
		})
	}
	calls.Wait()
	assert.EqualValues(t, processes*rounds, grants.Load())
	assert.LessOrEqual(t, long.Load(), int64(processes*rounds/100),
		"of those that have waited for many grants to others")
	s.nothingIsLeft()
}
