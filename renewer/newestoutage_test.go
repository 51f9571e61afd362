package renewer_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// Calls of whom the newest alone waits are refused as others are, when their
// time is over or the store is away, and not by the word that another has the
// lock.
func TestTheNewestIsRefusedInAnOutage(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]renewer.Newest{
		"Latest": renewer.NewestWaits, "Replace": renewer.NewestReplaces,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := renewer.Config{TTL: 30 * time.Second}
			onMemory(t, cfg, func(t *testing.T, s *inMemory, k *renewer.Keeper) {
				var hangs atomic.Bool
				s.acquire = func(ctx context.Context, claims []store.Claim) []store.Grant {
					if hangs.Load() {
						return unanswered(ctx, claims)
					}
					return s.Whole.Acquire(ctx, claims)
				}
				s.replace = func(ctx context.Context, r contract.Replacement) (int64, error) {
					if hangs.Load() {
						<-ctx.Done()
						return 0, ctx.Err()
					}
					return s.Whole.Replace(ctx, r)
				}
				require.Greater(t, k.Config().RequestTimeout, k.Config().FailOver)
				hangs.Store(true)
				begun := time.Now()
				var wg sync.WaitGroup
				for i := range 4 {
					wait := time.Second + time.Duration(i)*100*time.Millisecond
					wg.Go(func() {
						_, err := k.Acquire(t.Context(), renewer.Request{
							Name: "a", Newest: kind, MaxWait: wait,
						})
						assert.LessOrEqual(t, time.Since(begun), wait)
						if i == 3 { // no newer one has come
							assert.ErrorIs(t, err, renewer.ErrUnavailable)
							assert.NotErrorIs(t, err, renewer.ErrBusy)
						}
					})
					synctest.Wait()
				}
				wg.Wait()
				_, err := k.Acquire(t.Context(), renewer.Request{
					Name: "b", Newest: kind, MaxWait: time.Minute,
				})
				require.ErrorIs(t, err, renewer.ErrUnavailable)
				require.ErrorIs(t, k.HealthCheck(), renewer.ErrUnavailable)
				assert.LessOrEqual(t, time.Since(begun), 2*k.Config().RequestTimeout)
				hangs.Store(false)
				waitFor(time.Minute)
				require.NoError(t, k.HealthCheck())
			})
		})
	}
}
