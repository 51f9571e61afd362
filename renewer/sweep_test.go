package renewer_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// However long the TTL, and with it the time for a request: a key is
// freed soon after the store is back.
func TestACleanUpIsSoonWithALongTTL(t *testing.T) {
	t.Parallel()
	inBubble(t, renewer.Config{TTL: time.Hour}, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		l := acquire(t, k, "a")
		s.Default(script.Release, script.Fail(errDown))
		require.ErrorIs(t, l.Release(t.Context()), renewer.ErrUnavailable)
		waitFor(10 * time.Minute)
		s.Default(script.Release, script.Pass())
		back := time.Now()
		next := acquire(t, k, "a")
		assert.LessOrEqual(t, time.Since(back), time.Second)
		require.NoError(t, next.Release(t.Context()))
	})
}

// deadShard answers no release of a name that begins with b, and the
// others of its batch when the slowest has been.
type deadShard struct{ *script.Store }

func (s deadShard) Engine() store.Store { return s }

func (deadShard) Shard(name string) int { return int(name[0] - 'a') }

func (s deadShard) Release(ctx context.Context, holds []store.Hold) []store.Answer {
	answers := make([]store.Answer, len(holds))
	hung := false
	for i := range holds {
		if holds[i].Name[0] == 'b' {
			hung, answers[i].Err = true, errDown
			continue
		}
		answers[i] = s.Store.Release(ctx, holds[i:i+1])[0]
	}
	if hung {
		<-ctx.Done()
	}
	return answers
}

// onDeadShard runs f with a keeper on such a store, some of whose
// keys are to be cleaned up and can't be.
func onDeadShard(t *testing.T, f func(t *testing.T, s *script.Store, k *renewer.Keeper)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := script.New()
		k, err := renewer.New(deadShard{s}, config)
		require.NoError(t, err)
		defer waitFor(time.Hour)
		defer func() { _ = k.Shutdown(within(t, time.Minute)) }()
		for i := range 3 {
			l := acquire(t, k, fmt.Sprint("b", i))
			require.ErrorIs(t, l.Release(t.Context()), renewer.ErrUnavailable)
		}
		f(t, s, k)
	})
}

// A shard that does not answer holds up no clean-up of another.
func TestADeadShardDelaysNoOthersCleanUp(t *testing.T) {
	t.Parallel()
	onDeadShard(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		for i := range 20 {
			name := fmt.Sprint("a", i)
			s.Script(script.Acquire, script.Pass().Broken(errDown))
			_, err := k.Acquire(t.Context(), renewer.Request{Name: name, Try: true})
			require.ErrorIs(t, err, renewer.ErrUnavailable)
			begun := time.Now()
			synctest.Wait()
			require.Empty(t, s.Owner(name), "freed at once")
			require.Zero(t, time.Since(begun))
			waitFor(100 * time.Millisecond)
		}
	})
}

// Nor does it keep Shutdown from freeing what is on the others.
func TestADeadShardDelaysNoOthersShutdown(t *testing.T) {
	t.Parallel()
	onDeadShard(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		const n = 2500 // more than one batch
		s.SetSettle(time.Minute)
		for i := range n {
			// may arrive later: stays to be freed once more
			s.Script(script.Acquire, script.Fail(errDown))
			_, err := k.Acquire(t.Context(), renewer.Request{Name: fmt.Sprint("a", i), Try: true})
			require.ErrorIs(t, err, renewer.ErrUnavailable)
		}
		synctest.Wait()
		begun := time.Now()
		require.Error(t, k.Shutdown(within(t, time.Second)), "the dead shard's are left")
		freed := make(map[string]int)
		for _, c := range s.Calls(script.Release) {
			for _, h := range c.Holds {
				if !c.At.Before(begun) {
					freed[h.Name]++
				}
			}
		}
		require.Equal(t, n, len(freed)) //nolint:testifylint // Len would print them all
	})
}
