package renewer_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

type valueKey struct{}

// A context that is asked for late says the same as one that was asked for at
// once.
func TestAContextThatIsAskedForLate(t *testing.T) {
	t.Parallel()
	parents := map[string]func(t *testing.T) (context.Context, context.CancelFunc){
		"can't be cancelled": func(*testing.T) (context.Context, context.CancelFunc) {
			return context.Background(), func() {}
		},
		"can be cancelled": func(t *testing.T) (context.Context, context.CancelFunc) {
			return context.WithCancel(t.Context())
		},
	}
	for name, parent := range parents {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				ctx, cancel := parent(t)
				defer cancel()
				ctx = context.WithValue(ctx, valueKey{}, "value")
				acquire := func(name string) *renewer.Lease {
					l, err := k.Acquire(ctx, renewer.Request{Name: name})
					require.NoError(t, err)
					return l
				}
				live, freed, gone := acquire("live"), acquire("freed"), acquire("gone")
				require.NoError(t, freed.Release(ctx))
				assert.ErrorContains(t, context.Cause(freed.Context()), "lease released")
				assert.ErrorIs(t, freed.Context().Err(), context.Canceled)

				require.NoError(t, live.Context().Err())
				assert.Equal(t, "value", live.Context().Value(valueKey{}))
				first := live.Context()
				assert.Same(t, first, live.Context(), "there is only one")

				s.Default(script.Renew, script.Gone())
				waitFor(config.Heartbeat)
				require.ErrorIs(t, context.Cause(gone.Context()), renewer.ErrLost)
				require.ErrorIs(t, context.Cause(live.Context()), renewer.ErrLost)
				require.ErrorIs(t, gone.Release(ctx), renewer.ErrLost)
				require.ErrorIs(t, live.Release(ctx), renewer.ErrLost)
				require.ErrorIs(t, context.Cause(gone.Context()), renewer.ErrLost, "still")
			})
		})
	}
}

// However a first look at the context and the end of the lease meet, the
// context ends.
func TestTheContextIsAskedForWhileTheLeaseEnds(t *testing.T) {
	t.Parallel()
	s := script.New()
	k, err := renewer.New(s, config)
	require.NoError(t, err)
	for range 500 {
		l, err := k.Acquire(context.Background(), renewer.Request{Name: "a"})
		require.NoError(t, err)
		asked := make(chan context.Context, 1)
		var wg sync.WaitGroup
		wg.Go(func() { asked <- l.Context() })
		wg.Go(func() { assert.NoError(t, l.Release(context.Background())) })
		wg.Wait()
		select {
		case <-(<-asked).Done():
		case <-time.After(5 * time.Second):
			require.FailNow(t, "the context lives on")
		}
	}
	require.NoError(t, k.Shutdown(t.Context()))
}
