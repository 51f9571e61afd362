package lockmw_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// turns counts how often an honest caller for "victim" has its turn in 20 s.
func turns(ctx context.Context, t *testing.T, k *renewer.Keeper) (n int, longest time.Duration) {
	t.Helper()
	for begun := time.Now(); time.Since(begun) < 20*time.Second; n++ {
		asked := time.Now()
		_, err := lockmw.Do(ctx, k, "victim", func(context.Context) (int, error) {
			longest = max(longest, time.Since(asked))
			elapse(10 * time.Millisecond)
			return 0, nil
		}, lockmw.Wait(time.Minute))
		require.NoError(t, err)
		elapse(10 * time.Millisecond)
	}
	return n, longest
}

// ask has a caller ask for a name again and again, until ctx ends, for an
// operation that takes as long as it is told to.
func ask[N lockmw.Name](
	ctx context.Context, k *renewer.Keeper, name N, wait, work time.Duration,
) {
	for ctx.Err() == nil {
		_, _ = lockmw.Do(ctx, k, name, func(ctx context.Context) (int, error) {
			select {
			case <-time.After(work):
			case <-ctx.Done():
			}
			return 0, nil
		}, lockmw.Wait(wait))
	}
}

// Callers that list a name beside one that stays busy keep it for a quarter of
// a second each, and then wait for the busy one alone: they delay a caller of
// the name by no more than that, together.
func TestListersOfBusyNamesLetGoOfTheRest(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		busy    int
		wait    time.Duration // of a lister
		turns   int           // of an honest caller, of a thousand
		longest time.Duration // that it waits
	}{
		"no busy name":         {turns: 990, longest: time.Millisecond},
		"12 that stay busy":    {12, time.Minute, 800, 12 * 250 * time.Millisecond},
		"60 impatient listers": {60, 400 * time.Millisecond, 10, 60 * 50 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				s.Mute(true)
				ctx, stop := context.WithCancel(t.Context())
				var crowd sync.WaitGroup
				for i := range c.busy {
					busy := fmt.Sprintf("zz%02d", i)
					crowd.Go(func() { ask(ctx, k, busy, time.Hour, time.Hour) })
				}
				synctest.Wait()
				for i := range c.busy {
					list := lockmw.All("victim", fmt.Sprintf("zz%02d", i))
					crowd.Go(func() { ask(ctx, k, list, c.wait, time.Millisecond) })
				}
				n, longest := turns(ctx, t, k)
				stop()
				crowd.Wait()
				assert.GreaterOrEqual(t, n, c.turns)
				assert.LessOrEqual(t, longest, c.longest)
			})
		})
	}
}
