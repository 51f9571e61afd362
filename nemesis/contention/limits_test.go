package contention_test

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/proxy"
	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/nemesis/internal/kit"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// two is a limit of two calls.
const two = key + "/2"

// has another process take a slot of a limit of two, until free is called.
func (s *scene) has(name string) (free func()) {
	l, err := s.other.Acquire(s.t.Context(), renewer.Request{
		Name: name, MaxWait: soon, Limit: func() int { return 2 },
	})
	require.NoError(s.t, err)
	return func() { require.NoError(s.t, l.Release(context.Background())) }
}

// Two run at once, the third is refused, or waits until one of them has returned.
func TestTwoAtOnce(t *testing.T) {
	t.Parallel()
	each(t, func(s *scene) {
		began, goOn := make(chan struct{}, 3), make(chan struct{})
		call := s.open(time.Minute, func(ctx context.Context) error {
			assert.True(s.t, lockmw.Held(ctx, lockOf(two)))
			assert.False(s.t, lockmw.Held(ctx, key))
			assert.Positive(s.t, lockmw.Fence(ctx))
			began <- struct{}{}
			<-goOn
			return nil
		})
		first, second := start(s.t.Context(), call, two), start(s.t.Context(), call, two)
		<-began
		<-began
		o, words := s.open(0, nothing)(s.t.Context(), two)
		assert.Equal(s.t, full, o, words)
		third := start(s.t.Context(), call, two)
		require.Eventually(s.t, s.aCallerWaits, soon, tick)
		assert.EqualValues(s.t, 2, s.runs.Load())
		goOn <- struct{}{}
		<-began
		close(goOn)
		for _, c := range []<-chan result{first, second, third} {
			r := s.await(c)
			assert.Equal(s.t, done, r.outcome, r.words)
		}
	})
}

// Other processes count, and the lock of the same name does not.
func TestFullThenFree(t *testing.T) {
	t.Parallel()
	each(t, func(s *scene) {
		release := s.holds(key)
		one, other := s.has(key), s.has(key)
		call := s.open(0, nothing)
		o, words := call(s.t.Context(), two)
		assert.Equal(s.t, full, o, words)
		assert.Zero(s.t, s.runs.Load())
		one()
		o, words = call(s.t.Context(), two)
		assert.Equal(s.t, done, o, words)
		// Last, since a turn may be kept for a moment for one who has just left the line.
		one = s.has(key)
		o, words = s.open(1500*time.Millisecond, nothing)(s.t.Context(), two)
		assert.Equal(s.t, full, o, words)
		assert.EqualValues(s.t, 1, s.runs.Load())
		one()
		other()
		release()
	})
}

// Of several limits a call gets all or none.
func TestSeveralLimits(t *testing.T) {
	t.Parallel()
	each(t, func(s *scene) {
		const several = two + "+all/2+lock"
		one, other := s.has("all"), s.has("all")
		call := s.open(0, nothing)
		o, words := call(s.t.Context(), several)
		assert.Equal(s.t, full, o, words)
		s.has(key)() // both slots are free
		s.free("lock")
		one()
		o, words = call(s.t.Context(), several)
		assert.Equal(s.t, done, o, words)
		other()
	})
}

// A caller who leaves the line keeps no place, and one whose work panics keeps no slot.
func TestNoSlotIsLeaked(t *testing.T) {
	t.Parallel()
	each(t, func(s *scene) {
		o, words := s.open(time.Minute, func(context.Context) error { panic("boom") })(
			s.t.Context(), two)
		assert.Equal(s.t, broken, o, words)
		one, other := s.has(key), s.has(key)
		ctx, cancel := context.WithCancel(s.t.Context())
		c := start(ctx, s.open(time.Minute, nothing), two)
		require.Eventually(s.t, s.aCallerWaits, soon, tick)
		cancel()
		r := s.await(c)
		assert.Equal(s.t, cancelled, r.outcome, r.words)
		one()
		other()
		require.Eventually(s.t, func() bool { return !s.aCallerWaits() }, soon, tick)
		s.nothingIsLeft()
	})
}

// More callers want a limit than it has slots, and the server is far away: never more than may have
// one, and a process asks for as many as its callers wait for, not for one in each round trip.
func TestMoreCallersThanSlotsFarAway(t *testing.T) {
	t.Parallel()
	const slots, callers, rounds = 20, 40, 5
	for _, processes := range []int{1, 4} {
		t.Run(strconv.Itoa(processes), func(t *testing.T) {
			t.Parallel()
			s := &scene{t: t, redis: redistest.Start(t)}
			link := proxy.Start(t, s.redis.Addr())
			link.Delay(5 * time.Millisecond)
			option := s.redis.ClientOption()
			option.InitAddress = []string{link.Addr()}
			keepers := make([]*renewer.Keeper, processes)
			for i := range keepers {
				keepers[i] = kit.Start(t, option, renewer.Config{TTL: ttl}).Keeper
			}
			before := s.asked()
			var running atomic.Int64
			var calls sync.WaitGroup
			for i := range callers {
				calls.Go(func() {
					for range rounds {
						_, err := lockmw.Do(t.Context(), keepers[i%processes], lockmw.Limit(key, slots),
							func(context.Context) (any, error) {
								assert.LessOrEqual(t, running.Add(1), int64(slots))
								<-time.After(20 * time.Millisecond)
								running.Add(-1)
								return nil, nil
							}, lockmw.Wait(soon))
						assert.NoError(t, err)
					}
				})
			}
			calls.Wait()
			if processes == 1 {
				// Each release may be one, and so would each claim be, but for the front's.
				assert.Less(t, s.asked()-before, int64(callers*rounds*7/4), "scripts for as many slots")
			}
			s.nothingIsLeft()
		})
	}
}
