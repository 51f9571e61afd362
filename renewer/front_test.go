package renewer_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// A watch that was begun for callers who have left since ends with the lease
// that they waited for, also if that is lost.
func TestALossEndsTheWatchOfThoseWhoHaveLeft(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Script(script.Acquire, script.Taken(other, time.Second))
		leaves, leave := context.WithCancel(t.Context())
		seen := make(chan struct{})
		granted := background(func() error {
			l, err := k.Acquire(t.Context(), renewer.Request{Name: "a"})
			if err == nil {
				<-seen
				assert.Error(t, l.Release(t.Context()))
			}
			return err
		})
		synctest.Wait()
		left := waits(leaves, k)
		waitFor(2 * time.Second)
		require.Equal(t, 1, s.Watchers("a"), "one waits behind the holder")
		leave()
		require.ErrorIs(t, <-left, context.Canceled)
		s.Overwrite("a", other, time.Hour)
		waitFor(config.Heartbeat)
		assert.Zero(t, s.Watchers("a"), "it is lost")
		names, _ := k.NamesAndOrphans()
		assert.Zero(t, names)
		close(seen)
		require.NoError(t, <-granted)
	})
}

// A keeper of which callers only ask ends when they have left.
func TestShutdownOfAKeeperThatOnlyAsks(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Script(script.Acquire, script.Taken(other, time.Hour))
		asks := waits(t.Context(), k)
		begun := time.Now()
		require.NoError(t, k.Shutdown(within(t, time.Minute)))
		require.ErrorIs(t, <-asks, renewer.ErrShutdown)
		assert.Equal(t, begun, time.Now())
	})
}

// late is a store whose answers to claims are so late.
type late struct {
	contract.Replacer

	by time.Duration
}

func (s *late) Engine() store.Store { return s }

func (s *late) Acquire(ctx context.Context, claims []store.Claim) []store.Grant {
	grants := s.Replacer.Acquire(ctx, claims)
	waitFor(s.by)
	return grants
}

// One that a newer call replaces while the store is asked for it ends as soon
// as it begins.
func TestReplacedBeforeItBegins(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		replacer, ok := memory.New().Engine().(contract.Replacer)
		require.True(t, ok)
		k, err := renewer.New(&late{replacer, time.Second}, config)
		require.NoError(t, err)
		replaces := renewer.Request{Name: "a", Newest: renewer.NewestReplaces}
		lost := make(chan time.Time, 1)
		old := background(func() error {
			l, err := k.Acquire(t.Context(), replaces)
			if err != nil {
				return err
			}
			at, why := lostAt(t, l)
			lost <- at
			assert.Equal(t, renewer.ReasonReplaced, why.Reason)
			_ = l.Release(t.Context())
			return nil
		})
		waitFor(time.Second / 2)
		asked := time.Now()
		l, err := k.Acquire(t.Context(), replaces)
		require.NoError(t, err)
		require.NoError(t, <-old)
		assertInstant(t, asked.Add(time.Second/2), <-lost, "with the grant")
		require.NoError(t, l.Release(t.Context()))
		names, _ := k.NamesAndOrphans()
		assert.Zero(t, names)
		require.NoError(t, k.Shutdown(t.Context()))
	})
}
