package renewer_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// waitsFor has a caller ask for a lock until t ends, or until it is told to
// leave.
func waitsFor(t *testing.T, k *renewer.Keeper, name string, more ...renewer.Request) (leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	over := waits(ctx, k, named(name, more))
	return sync.OnceFunc(func() {
		cancel()
		if err := <-over; !errors.Is(err, context.Canceled) {
			assert.NoError(t, err)
		}
	})
}

// heldIn is what a keeper tells of its leases, by name and age.
func heldIn(k *renewer.Keeper) []renewer.Holding {
	return slices.SortedFunc(k.Holdings(), func(a, b renewer.Holding) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), a.Since.Compare(b.Since))
	})
}

// Who is on call asks a process what it holds, since when, and who waits behind
// that.
func TestHeld(t *testing.T) {
	t.Parallel()
	cfg := config
	cfg.MaxHold = time.Minute
	inBubble(t, cfg, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		begun := time.Now()
		require.Empty(t, slices.Collect(k.Holdings()))
		order := acquire(t, k, "order:42", renewer.Request{Operation: "charge"})
		waitFor(time.Second)
		lead := acquire(t, k, "leader", renewer.Request{LongRunning: true})
		defer waitsFor(t, k, "order:42")()
		defer waitsFor(t, k, "order:42")()
		held := heldIn(k)
		require.Len(t, held, 2)
		assert.Equal(t, "leader", held[0].Name)
		assert.True(t, held[0].LongRunning)
		assertInstant(t, begun.Add(time.Second), held[0].Since, "of the leader")
		assert.Zero(t, held[0].Waiting)
		assertInstant(t, begun.Add(goodFor), held[1].Until, "no heartbeat was sent yet")
		held[1].Until = time.Time{}
		assert.Equal(t, renewer.Holding{
			Name: "order:42", Operation: "charge", Fence: order.Fence(), Since: begun, Waiting: 2,
		}, held[1])

		<-order.Context().Done()
		waitFor(cfg.TTL)
		held = heldIn(k)
		require.Len(t, held, 2, "the waiters have had the lock, and the operation runs on")
		assert.Equal(t, order.Err(), error(held[1].Lost))
		assertInstant(t, begun.Add(time.Minute), held[1].LostAt, "by MaxHold")
		assert.Zero(t, held[1].Until)
		assert.Zero(t, held[1].Waiting)

		require.ErrorIs(t, order.Release(t.Context()), renewer.ErrLost)
		require.NoError(t, lead.Release(t.Context()))
		require.Empty(t, heldIn(k))
	})
}

// Who waits says since when, and for whom, in this process or elsewhere, and
// why it is not known.
func TestWaiting(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		l := acquire(t, k, "here", renewer.Request{Operation: "charge"})
		begun := time.Now()
		waitFor(time.Second)
		defer waitsFor(t, k, "here", renewer.Request{Operation: "refund"})()
		s.Script(script.Acquire, script.Taken(other, time.Minute))
		defer waitsFor(t, k, "elsewhere", renewer.Request{LongRunning: true})()
		s.Script(script.Acquire, script.Fail(errDown))
		defer waitsFor(t, k, "unknown")()
		waiting := slices.SortedFunc(k.Waiting(), func(a, b renewer.Waiting) int {
			return cmp.Compare(a.Name, b.Name)
		})
		require.Len(t, waiting, 3)
		assert.Equal(t, other, waiting[0].Holder)
		assert.True(t, waiting[0].LongRunning)
		assert.Equal(t, "refund", waiting[1].Operation)
		assert.Equal(t, "charge", waiting[1].Holder.Operation)
		assertInstant(t, begun.Add(time.Second), waiting[1].Since, "of the waiter")
		assertInstant(t, begun, waiting[1].HeldSince, "of the holder")
		assert.NoError(t, waiting[1].Err)
		assert.ErrorIs(t, waiting[2].Err, errDown)
		require.NoError(t, l.Release(t.Context()))
	})
}

// A caller that asked and left has held nothing.
func TestWhoHasAskedInVainIsNoHolder(t *testing.T) {
	t.Parallel()
	inObserved(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper, r *recorder) {
		s.Script(script.Acquire, script.Hang())
		first := waitsFor(t, k, "a")
		waitFor(time.Second)
		second := waitsFor(t, k, "a")
		first()
		synctest.Wait()
		second()
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, e := range r.events {
			if end, ok := e.(renewer.AcquireEnd); ok && end.Err == nil {
				assert.Zero(t, end.Holder)
				return
			}
		}
		assert.Fail(t, "the second has not got the lock")
	})
}

// A slot of a limit and its line are seen as those of a lock are.
func TestSlotsInside(t *testing.T) {
	t.Parallel()
	onMemory(t, config, func(t *testing.T, _ *inMemory, k *renewer.Keeper) {
		l := acquire(t, k, "user:7", renewer.Request{Limit: slots(1)})
		first := waitsFor(t, k, "user:7", renewer.Request{Limit: slots(1)})
		second := waitsFor(t, k, "user:7", renewer.Request{Limit: slots(1)})
		held, waiting := heldIn(k), slices.Collect(k.Waiting())
		require.Len(t, held, 1)
		assert.Equal(t, "user:7", held[0].Name)
		assert.True(t, held[0].Limited)
		assert.Equal(t, 2, held[0].Waiting)
		require.Len(t, waiting, 2)
		for _, w := range waiting {
			assert.True(t, w.Limited)
			assert.Equal(t, "user:7", w.Name)
		}
		assert.Equal(t, "here", waiting[0].Holder.Node)
		second()
		first()
		require.NoError(t, l.Release(t.Context()))
	})
}

// It is ranged over while leases go, at any number of them, and by a caller
// that has seen enough: those that stay are all seen, once.
func TestLookingInsideWhileLeasesGo(t *testing.T) {
	t.Parallel()
	const many = 1500
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		leases := make(map[string]*renewer.Lease)
		var leave []func()
		for i := range many {
			name := fmt.Sprint("order:", i)
			leases[name] = acquire(t, k, name)
			leave = append(leave, waitsFor(t, k, "order:0"))
		}
		n := 0
		for range k.Holdings() {
			n++
			if n == 300 {
				break
			}
		}
		require.Equal(t, 300, n)
		n = 0
		for range k.Waiting() {
			n++
			if n%3 == 0 {
				leave[many-n/3]()
			}
		}
		require.GreaterOrEqual(t, n, many-many/3)
		require.Len(t, slices.Collect(k.Waiting()), many-many/3)
		for _, f := range leave {
			f()
		}
		seen := make(map[string]bool)
		for h := range k.Holdings() {
			require.False(t, seen[h.Name], h.Name)
			seen[h.Name] = true
			if len(seen)%3 == 0 {
				require.NoError(t, leases[h.Name].Release(t.Context()))
				delete(leases, h.Name)
			}
		}
		require.Len(t, seen, many)
		require.Len(t, heldIn(k), many-many/3)
		for _, l := range leases {
			require.NoError(t, l.Release(t.Context()))
		}
		require.Empty(t, heldIn(k))
	})
}
