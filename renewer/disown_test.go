package renewer_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// settling is a store that takes a second to say how long a lost request may
// take, which is asked while a key is being disowned. Its releases may panic.
type settling struct {
	*script.Store
	slow, panics atomic.Bool
}

func (s *settling) Engine() store.Store { return s }

func (s *settling) Settle() time.Duration {
	if s.slow.Load() {
		<-time.After(time.Second)
	}
	return 0
}

func (s *settling) Release(ctx context.Context, holds []store.Hold) []store.Answer {
	if s.panics.Swap(false) {
		panic("a store's")
	}
	return s.Store.Release(ctx, holds)
}

// A key that is being disowned while its lease, or the call for it, ends is not
// missed by Shutdown, which returns nil only if every key is free.
func TestShutdownDoesNotMissAKeyThatIsBeingDisowned(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(s *settling, p *trap, k *renewer.Keeper){
		"an acquire that panics": func(_ *settling, p *trap, k *renewer.Keeper) {
			p.set("AcquireEnd")
			_, _ = k.Acquire(context.Background(), renewer.Request{Name: "a"})
		},
		"a release that panics": func(s *settling, _ *trap, k *renewer.Keeper) {
			l, err := k.Acquire(context.Background(), renewer.Request{Name: "a"})
			if err == nil {
				s.panics.Store(true)
				_ = l.Release(context.Background())
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &settling{Store: script.New()}
				s.slow.Store(true)
				p := &trap{spin: func() { panic("an observer's") }}
				cfg := config
				cfg.Observer = trapObserver(p)
				k, err := renewer.New(s, cfg)
				require.NoError(t, err)
				left := make(chan any, 1)
				go func() {
					defer func() { left <- recover() }()
					leave(s, p, k)
				}()
				synctest.Wait() // it is being disowned
				require.NotEmpty(t, s.Owner("a"))
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				require.NoError(t, k.Shutdown(ctx))
				// A sweeper may have asked for it already, and Shutdown asks
				// once more.
				assert.Empty(t, s.Owner("a"), "its key is not free")
				require.NotNil(t, <-left)
			})
		})
	}
}
