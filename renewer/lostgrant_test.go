package renewer_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/internal/testutil/engine"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// replyLost is a store whose first grant nobody hears of.
type replyLost struct {
	engine.Whole

	heard atomic.Bool
}

func (s *replyLost) Engine() store.Store { return s }

func (s *replyLost) Acquire(ctx context.Context, claims []store.Claim) []store.Grant {
	grants := s.Whole.Acquire(ctx, claims)
	if s.heard.Swap(true) {
		return grants
	}
	<-ctx.Done()
	return []store.Grant{{Err: ctx.Err()}}
}

// A lease that was broken, or replaced, before its owner had the reply to its
// grant is free as soon as the owner asks again, and not when its TTL is over:
// nothing runs under it.
func TestABrokenGrantWhoseReplyWasLost(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limit func() int
		end   func(t *testing.T, s *replyLost, l store.Lock)
	}{
		"broken": {nil, breakFirst},
		"a slot": {slots(1), breakFirst},
		"replaced": {nil, func(t *testing.T, s *replyLost, _ store.Lock) {
			_, err := s.Replace(t.Context(), contract.Replacement{
				Name: "a", Owner: renewer.NewOwner(), Break: true,
			})
			require.NoError(t, err)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &replyLost{Whole: engine.In(memory.New())}
				k, err := renewer.New(s, config)
				require.NoError(t, err)
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
				require.NoError(t, k.Shutdown(t.Context()))
			})
		})
	}
}

func breakFirst(t *testing.T, s *replyLost, l store.Lock) {
	t.Helper()
	answer := s.Break(t.Context(), store.Breaking{
		Name: l.Name, Limit: l.Limit, Fence: l.Slots[0].Fence,
		Broken: store.Broken{By: "alice", Why: "test"},
	})
	require.Equal(t, store.StatusHeld, answer.Status)
}
