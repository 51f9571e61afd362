package renewer_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/engine"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// By ranks the newest is the greatest, in whatever order they come, here and
// elsewhere.
func TestTheGreaterRankIsTheNewest(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]renewer.Newest{
		"Latest": renewer.NewestWaits, "Replace": renewer.NewestReplaces,
	} {
		for where, at := range map[string][2]int{"in one process": {0, 0}, "in two": {0, 1}} {
			t.Run(name+" "+where, func(t *testing.T) {
				t.Parallel()
				inTwoProcesses(t, func(c *newestCase) {
					plain := c.ask(0, renewer.Request{Operation: "plain"})
					newest := c.rank(at[1], 7, renewer.Request{Newest: kind})
					require.False(t, newest.ended)
					c.replaced(c.rank(at[0], 6, renewer.Request{Newest: kind}), "a newer one waits")
					c.replaced(c.rank(at[1], 6, renewer.Request{Newest: kind}), "a newer one waits")
					_ = c.release(plain)
					waitFor(time.Second)
					require.True(t, newest.ended)
					require.NoError(t, newest.err)
					c.replaced(c.rank(at[0], 6, renewer.Request{Newest: kind}), "a newer one runs")
					c.replaced(c.rank(at[1], 6, renewer.Request{Newest: kind}), "a newer one runs")
					require.NoError(t, newest.lease.Err(), "an older one does not end it")
					require.NoError(t, c.release(newest))
					waitFor(time.Hour)
					c.replaced(c.rank(at[0], 6, renewer.Request{
						Newest: kind,
					}), "a newer one has run")
					c.replaced(c.rank(at[0], 6, renewer.Request{
						MaxWait: time.Second,
					}), "without the option too")
					c.replaced(c.rank(at[0], 6, renewer.Request{Try: true}), "and without a wait")
					for _, rank := range []int64{7, 7, 8} { // the same work again, and newer work
						next := c.rank(at[1], rank, renewer.Request{Newest: kind})
						require.NoError(t, next.err)
						require.NoError(t, c.release(next))
					}
				})
			})
		}
	}
}

// rank is ask with a rank.
func (c *newestCase) rank(process int, rank int64, r renewer.Request) *asked {
	r.Rank = rank
	return c.ask(process, r)
}

// A call with a rank is handed no lease behind the store's back: an older one
// elsewhere would run after it.
func TestAHandOverIsKnownToTheStore(t *testing.T) {
	t.Parallel()
	inTwoProcesses(t, func(c *newestCase) {
		holder := c.ask(0, renewer.Request{Operation: "plain"})
		first := c.ask(0, renewer.Request{
			Operation: "plain",
		}) // whose claim reserves tokens for hand-offs
		newest := c.rank(0, 7, renewer.Request{MaxWait: time.Hour})
		waitFor(time.Second) // for tokens
		require.NoError(t, c.release(holder))
		waitFor(time.Millisecond)
		require.NoError(t, c.release(first))
		waitFor(time.Second)
		require.NoError(t, newest.err)
		require.NoError(t, c.release(newest))
		c.replaced(c.rank(1, 6, renewer.Request{MaxWait: time.Hour}), "a newer one has run")
	})
}

// Without ranks calls go by when they were made: one that was cut off from the
// store meanwhile is older than one that came there first.
func TestACallThatWasCutOffIsOld(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]renewer.Newest{
		"Latest": renewer.NewestWaits, "Replace": renewer.NewestReplaces,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onMemory(t, config, func(t *testing.T, s *inMemory, here *renewer.Keeper) {
				var off atomic.Bool
				s.acquire = func(ctx context.Context, claims []store.Claim) []store.Grant {
					if off.Load() {
						return unanswered(ctx, claims)
					}
					return s.Whole.Acquire(ctx, claims)
				}
				there, err := renewer.New(engine.Of(s.Whole), config)
				require.NoError(t, err)
				c := &newestCase{t: t, keepers: []*renewer.Keeper{here, there}}
				off.Store(true)
				old := c.ask(0, renewer.Request{Newest: kind})
				require.False(t, old.ended)
				waitFor(time.Second)
				newer := c.ask(1, renewer.Request{Newest: kind})
				require.NoError(t, newer.err, "this one is not cut off")
				waitFor(5 * time.Second)
				off.Store(false)
				waitFor(5 * time.Second)
				c.replaced(old, "it was made before")
				require.NoError(t, newer.lease.Err())
				require.NoError(t, c.release(newer))
				after := c.ask(0, renewer.Request{Newest: kind})
				require.NoError(t, after.err, "this one is made now")
				require.NoError(t, c.release(after))
				require.NoError(t, there.Shutdown(t.Context()))
			})
		})
	}
}

// A rank that can't be meant is an error at the call.
func TestRankThatCannotBeMeant(t *testing.T) {
	t.Parallel()
	inTwoProcesses(t, func(c *newestCase) {
		for _, a := range []*asked{
			c.rank(0, -1, renewer.Request{}),
			c.rank(0, -1, renewer.Request{Newest: renewer.NewestReplaces}),
			c.rank(0, 7, renewer.Request{Limit: slots(2)}),
		} {
			require.ErrorIs(t, a.err, renewer.ErrConfig)
			assert.Regexp(t, "(?i)rank", a.err)
		}
	})
}
