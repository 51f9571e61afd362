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
	"github.com/lockbeat/lockbeat/renewer/store"
)

// A lease that was broken, or replaced, before its owner had the reply to its
// grant is free as soon as the owner asks again, and not when its TTL is over:
// nothing runs under it.
func TestABrokenGrantWhoseReplyWasLost(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limit func() int
		end   func(t *testing.T, s *inMemory, l store.Lock)
	}{
		"broken": {nil, breakFirst},
		"a slot": {slots(1), breakFirst},
		"replaced": {nil, func(t *testing.T, s *inMemory, _ store.Lock) {
			_, err := s.Replace(t.Context(), contract.Replacement{
				Name: "a", Owner: renewer.NewOwner(), Break: true,
			})
			require.NoError(t, err)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onMemory(t, config, func(t *testing.T, s *inMemory, k *renewer.Keeper) {
				lost := false
				s.acquire = func(ctx context.Context, claims []store.Claim) []store.Grant {
					grants := s.Whole.Acquire(ctx, claims)
					if !lost {
						lost = true
						return unanswered(ctx, claims)
					}
					return grants
				}
				begun := time.Now()
				done := background(func() error {
					l, err := k.Acquire(t.Context(), renewer.Request{Name: "a", Limit: c.limit})
					if err != nil {
						return err
					}
					assert.True(t, l.Valid())
					return l.Release(t.Context())
				})
				synctest.Wait()
				l, err := s.Show(t.Context(), "a", c.limit != nil)
				require.NoError(t, err)
				require.Len(t, l.Slots, 1, "it was granted")
				c.end(t, s, l)
				require.NoError(t, <-done)
				assert.Less(t, time.Since(begun), config.RequestTimeout+time.Second)
				l, err = s.Show(t.Context(), "a", c.limit != nil)
				require.NoError(t, err)
				assert.Empty(t, l.Slots, "nothing is left")
			})
		})
	}
}

func breakFirst(t *testing.T, s *inMemory, l store.Lock) {
	t.Helper()
	answer := s.Break(t.Context(), store.Breaking{
		Name: l.Name, Limit: l.Limit, Fence: l.Slots[0].Fence,
		Broken: store.Broken{By: "alice", Why: "test"},
	})
	require.Equal(t, store.StatusHeld, answer.Status)
}
