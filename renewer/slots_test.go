package renewer_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/renewer/quorum"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// A caller got the last slot and does not know. It must not stand in line
// behind one that waits for that slot.
func TestASlotWhoseReplyWasLost(t *testing.T) {
	t.Parallel()
	onMemory(t, config, func(t *testing.T, s *inMemory, k *renewer.Keeper) {
		var asked atomic.Int32
		s.acquire = func(ctx context.Context, claims []store.Claim) []store.Grant {
			grants := s.Whole.Acquire(ctx, claims)
			if asked.Add(1) == 1 {
				waitFor(100 * time.Millisecond)
				return []store.Grant{{Err: errors.New("the reply is lost")}}
			}
			return grants
		}
		begun := time.Now()
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				l, err := k.Acquire(t.Context(), renewer.Request{Name: "a", Limit: one})
				if assert.NoError(t, err) {
					assert.NoError(t, l.Release(t.Context()))
				}
			})
			<-time.After(10 * time.Millisecond)
		}
		wg.Wait()
		assert.Less(t, time.Since(begun), time.Second)
	})
}

var one = slots(1)

// Callers for whom there are slots ask side by side, and none waits for
// another's answer.
func TestSlotsAreAskedForSideBySide(t *testing.T) {
	t.Parallel()
	onMemory(t, config, func(t *testing.T, s *inMemory, k *renewer.Keeper) {
		s.acquire = func(ctx context.Context, claims []store.Claim) []store.Grant {
			waitFor(100 * time.Millisecond)
			return s.Whole.Acquire(ctx, claims)
		}
		begun := time.Now()
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				l, err := k.Acquire(t.Context(), renewer.Request{Name: "a", Limit: slots(100)})
				if assert.NoError(t, err) {
					assert.True(t, l.Limited())
					assert.Equal(t, "a", l.Name())
					assert.NoError(t, l.Release(t.Context()))
				}
			})
		}
		wg.Wait()
		assert.Equal(t, 100*time.Millisecond, time.Since(begun))
	})
}

// Those who have found a limit full stand in line, in the order in which they
// came.
func TestSlotsAreHadInOrder(t *testing.T) {
	t.Parallel()
	onMemory(t, config, func(t *testing.T, _ *inMemory, k *renewer.Keeper) {
		held := acquire(t, k, "a", renewer.Request{Limit: one})
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				l, err := k.Acquire(t.Context(), renewer.Request{Name: "a", Limit: one})
				if !assert.NoError(t, err) {
					return
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				assert.NoError(t, l.Release(t.Context()))
			})
			<-time.After(time.Millisecond)
		}
		_, err := k.Acquire(t.Context(), renewer.Request{Name: "a", Limit: one, MaxWaiters: 3})
		assert.ErrorIs(t, err, renewer.ErrQueueFull)
		require.NoError(t, held.Release(t.Context()))
		wg.Wait()
		assert.IsIncreasing(t, order)
	})
}

// A number that falls while a call waits refuses it at its next question: at 0
// the limit is closed, and below that the number is wrong.
func TestTheNumberFallsWhileACallWaits(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]error{0: renewer.ErrLimitClosed, -1: renewer.ErrConfig} {
		onMemory(t, config, func(t *testing.T, _ *inMemory, k *renewer.Keeper) {
			held := acquire(t, k, "a", renewer.Request{Limit: one})
			var number atomic.Int64
			number.Store(1)
			waited := waits(t.Context(), k, renewer.Request{
				Limit: func() int { return int(number.Load()) },
			})
			number.Store(n)
			require.NoError(t, held.Release(t.Context()))
			require.ErrorIs(t, <-waited, want)
			held = acquire(t, k, "a", renewer.Request{Limit: one}) // the turn is not kept for it
			require.NoError(t, held.Release(t.Context()))
		})
	}
}

// That processes disagree about a limit is told once.
func TestLimitsThatDisagree(t *testing.T) {
	t.Parallel()
	r, cfg := new(recorder), config
	cfg.Observer = r
	onMemory(t, cfg, func(t *testing.T, _ *inMemory, k *renewer.Keeper) {
		var all []*renewer.Lease
		for range 3 {
			all = append(all, acquire(t, k, "a", renewer.Request{Limit: slots(3)}))
		}
		for range 5 {
			_, err := k.Acquire(t.Context(), renewer.Request{Name: "a", Limit: one, Try: true})
			assert.ErrorIs(t, err, renewer.ErrBusy)
		}
		faults := heard[renewer.Fault](r)
		require.Len(t, faults, 1)
		assert.Equal(t, []string{"limit", "a"}, []string{faults[0].Doing, faults[0].Name})
		assert.ErrorContains(t, faults[0].Err, "3 hold it, and this process admits 1")
		for _, l := range all {
			require.NoError(t, l.Release(t.Context()))
		}
	})
}

// A store that has no limits is not asked twice, and the error says why,
// whatever else is asked for.
func TestLimitsOfAStoreThatHasNone(t *testing.T) {
	t.Parallel()
	nodes := make([]renewer.Store, 3)
	for i := range nodes {
		nodes[i] = memory.New()
	}
	q, err := quorum.New(nodes, quorum.Names("a", "b", "c"))
	require.NoError(t, err)
	k, err := renewer.New(q, renewer.Config{TTL: time.Minute})
	require.NoError(t, err)
	for _, manual := range []time.Duration{0, time.Minute} {
		_, err = k.Acquire(t.Context(), renewer.Request{Name: "a", Limit: one, Manual: manual})
		assert.ErrorIs(t, err, renewer.ErrConfig)
		assert.ErrorContains(t, err, "a quorum has no limits")
	}
	require.NoError(t, k.Shutdown(t.Context()))
}

// Where callers had to wait a moment ago, the next one asks from a place at
// once: it is refused once and not twice. When none has had to for a while,
// callers ask side by side again.
func TestWhereASlotWasWaitedFor(t *testing.T) {
	t.Parallel()
	onMemory(t, config, func(t *testing.T, s *inMemory, k *renewer.Keeper) {
		var with, without atomic.Int32 // claims from a place, and the others
		s.acquire = func(ctx context.Context, claims []store.Claim) []store.Grant {
			if claims[0].Place != 0 {
				with.Add(1)
			} else {
				without.Add(1)
			}
			return s.Whole.Acquire(ctx, claims)
		}
		cycle := func() {
			l, err := k.Acquire(t.Context(), renewer.Request{Name: "a", Limit: one})
			if assert.NoError(t, err) {
				<-time.After(10 * time.Millisecond)
				assert.NoError(t, l.Release(t.Context()))
			}
		}
		for range 2 {
			var wg sync.WaitGroup
			for range 2 {
				wg.Go(cycle)
			}
			wg.Wait()
			with.Store(0)
			without.Store(0)
			cycle()
			assert.EqualValues(t, 1, with.Load())
			assert.Zero(t, without.Load())
			<-time.After(3 * time.Second)
			cycle()
			assert.EqualValues(t, 1, without.Load())
		}
	})
}
