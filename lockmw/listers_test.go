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

// ask has a caller ask for a name again and again, until ctx ends, for an operation that takes as
// long as it is told to.
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

// Listers of a name beside names that stay busy keep it a second each. It is the name's time that
// is bounded, over all busy names and callers: others had one turn in thirteen seconds.
func TestListersOfManyBusyNamesKeepNoCallerFromTheRest(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		busy    int
		work    time.Duration // of the one who has a busy name
		wait    time.Duration // of a lister
		longest time.Duration // that an honest caller waits
	}{
		"no busy name":                  {},
		"12 that stay busy":             {12, time.Hour, 10 * time.Second, 1100 * time.Millisecond},
		"60 that stay busy":             {60, time.Hour, 10 * time.Second, 1100 * time.Millisecond},
		"60 impatient listers":          {60, time.Hour, time.Second, 300 * time.Millisecond},
		"12 that are free now and then": {12, 900 * time.Millisecond, 10 * time.Second, 1100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				s.Mute(true)
				ctx, stop := context.WithCancel(t.Context())
				var crowd sync.WaitGroup
				for i := range c.busy {
					busy := fmt.Sprintf("zz%02d", i)
					crowd.Go(func() { ask(ctx, k, busy, time.Hour, c.work) })
				}
				synctest.Wait()
				for i := range c.busy {
					list := lockmw.All("victim", fmt.Sprintf("zz%02d", i))
					crowd.Go(func() { ask(ctx, k, list, c.wait, time.Millisecond) })
				}
				n, longest := turns(ctx, t, k)
				stop()
				crowd.Wait()
				t.Log(n, longest)
				assert.GreaterOrEqual(t, n, 20*50*8/10, "turns of a caller who is alone: 1000")
				assert.LessOrEqual(t, longest, c.longest)
			})
		})
	}
}
