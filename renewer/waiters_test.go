package renewer_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// The line takes as many as MaxWaiters says behind the one who has
// the lock, and one more once somebody has left it.
func TestAFullLineRefuses(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		l := acquire(t, k, "a", renewer.Request{Operation: "export"})
		leaves, leave := context.WithCancel(t.Context())
		acquireAndFree := func(ctx context.Context) <-chan error {
			return background(func() error {
				l, err := k.Acquire(ctx, renewer.Request{Name: "a", MaxWaiters: 2})
				if err != nil {
					return err
				}
				waitFor(aToken)
				return l.Release(t.Context())
			})
		}
		first := acquireAndFree(leaves)
		synctest.Wait()
		second := acquireAndFree(t.Context())
		synctest.Wait()

		_, err := k.Acquire(t.Context(), renewer.Request{Name: "a", MaxWaiters: 2})
		require.ErrorIs(t, err, renewer.ErrBusy)
		require.ErrorIs(t, err, renewer.ErrQueueFull)
		require.ErrorContains(t, err, `acquire "a": held by another owner; last seen with here`)
		require.ErrorContains(t, err,
			"the queue is full: MaxWaiters (2) callers of this process stand in it")

		leave()
		require.ErrorIs(t, <-first, context.Canceled)
		third := acquireAndFree(t.Context())
		synctest.Wait()
		require.NoError(t, l.Release(t.Context()))
		require.NoError(t, <-second)
		require.NoError(t, <-third)
		require.Len(t, s.Calls(script.Acquire), 2,
			"who is refused by the line, or handed the lock, does not ask the store")
	})
}

// Nothing is known yet of the lock when the queue is full already: it is busy
// here.
func TestALineIsFullBeforeTheStoreHasAnswered(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Script(script.Acquire, script.Pass().Late(time.Second))
		calls := make([]<-chan error, 2)
		for i := range calls {
			calls[i] = waits(t.Context(), k, renewer.Request{MaxWaiters: 1})
		}
		_, err := k.Acquire(t.Context(), renewer.Request{Name: "a", MaxWaiters: 1})
		require.ErrorIs(t, err, renewer.ErrQueueFull)
		_, err = k.Acquire(t.Context(), renewer.Request{Name: "a", MaxWaiters: 1, Try: true})
		require.ErrorIs(t, err, renewer.ErrBusy,
			"who doesn't wait shares the answer of the one who asks")
		require.NotErrorIs(t, err, renewer.ErrQueueFull)
		for _, c := range calls {
			require.NoError(t, <-c)
		}
	})
}

func TestATryCanBeBounded(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Script(script.Acquire, script.Hang())
		begun := time.Now()
		_, err := k.Acquire(t.Context(), renewer.Request{
			Name: "a", MaxWait: 300 * time.Millisecond, Try: true,
		})
		require.ErrorIs(t, err, renewer.ErrUnavailable)
		require.NotErrorIs(t, err, context.Canceled)
		assertInstant(t, begun.Add(300*time.Millisecond), time.Now(), "before RequestTimeout")
	})
}
