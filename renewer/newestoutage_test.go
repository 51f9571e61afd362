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
	"github.com/lockbeat/lockbeat/internal/testutil/engine"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// hangingStore answers nothing from an instant on, until the question's context
// ends.
type hangingStore struct {
	engine.Whole
	hangs atomic.Bool
}

func (s *hangingStore) Engine() store.Store { return s }

func (s *hangingStore) Acquire(ctx context.Context, claims []store.Claim) []store.Grant {
	if !s.hangs.Load() {
		return s.Whole.Acquire(ctx, claims)
	}
	<-ctx.Done()
	grants := make([]store.Grant, len(claims))
	for i := range grants {
		grants[i].Err = ctx.Err()
	}
	return grants
}

func (s *hangingStore) Replace(ctx context.Context, r contract.Replacement) (int64, error) {
	if !s.hangs.Load() {
		return s.Whole.Replace(ctx, r)
	}
	<-ctx.Done()
	return 0, ctx.Err()
}

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
			synctest.Test(t, func(t *testing.T) {
				s := &hangingStore{Whole: engine.In(memory.New())}
				k, err := renewer.New(s, renewer.Config{TTL: 30 * time.Second})
				require.NoError(t, err)
				require.Greater(t, k.Config().RequestTimeout, k.Config().FailOver)
				s.hangs.Store(true)
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
				_, err = k.Acquire(t.Context(), renewer.Request{
					Name: "b", Newest: kind, MaxWait: time.Minute,
				})
				require.ErrorIs(t, err, renewer.ErrUnavailable)
				require.ErrorIs(t, k.HealthCheck(), renewer.ErrUnavailable)
				assert.LessOrEqual(t, time.Since(begun), 2*k.Config().RequestTimeout)
				s.hangs.Store(false)
				waitFor(time.Minute)
				require.NoError(t, k.HealthCheck())
				require.NoError(t, k.Shutdown(t.Context()))
			})
		})
	}
}
