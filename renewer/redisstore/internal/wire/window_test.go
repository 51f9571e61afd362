package wire_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/wire"
)

func TestAWindowLetsInInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := wire.NewWindow(10)
		require.NoError(t, w.Enter(t.Context(), 10))
		var mu sync.Mutex
		var in []int
		for i, items := range []int{3, 5, 100, 1, 2} {
			go func() {
				if assert.NoError(t, w.Enter(t.Context(), items)) {
					mu.Lock()
					defer mu.Unlock()
					in = append(in, i)
				}
			}()
			synctest.Wait()
		}
		step := func(items int, want ...int) {
			t.Helper()
			w.Leave(items)
			synctest.Wait()
			assert.ElementsMatch(t, want, in)
		}
		step(2, nil...)
		step(1, 0)
		step(4, 0)       // 1 wants five
		step(1, 0, 1)    // and 2 everything
		step(9, 0, 1)    // though there is room for 3
		step(1, 0, 1, 2) // larger than the window: alone
		step(100, 0, 1, 2, 3, 4)
		way, waiting := w.Under()
		assert.Equal(t, []int{3, 0}, []int{way, waiting})
	})
}

func TestWhoGivesUpLeavesTheWindowsQueueAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := wire.NewWindow(10)
		require.NoError(t, w.Enter(t.Context(), 8))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		large, small := make(chan error, 1), make(chan error, 1)
		go func() { large <- w.Enter(ctx, 5) }()
		synctest.Wait()
		go func() { small <- w.Enter(t.Context(), 2) }()
		synctest.Wait()
		begun := time.Now()
		err := <-large
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorIs(t, err, wire.ErrNotSent)
		assert.Equal(t, time.Second, time.Since(begun))
		assert.NoError(t, <-small, "which waited behind that one only")
		assert.Equal(t, time.Second, time.Since(begun))
		way, waiting := w.Under()
		assert.Equal(t, []int{10, 0}, []int{way, waiting})
	})
}

// However callers come, give up and go, never are more in than may be, and at
// the end none is.
func TestAWindowInACrowd(t *testing.T) {
	t.Parallel()
	const most = 16
	w := wire.NewWindow(most)
	var in atomic.Int64
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			for range 100 {
				items := 1 + rand.IntN(most)
				ctx, cancel := context.WithCancel(t.Context())
				if rand.IntN(2) == 0 {
					go cancel()
				}
				if w.Enter(ctx, items) == nil {
					if in.Add(int64(items)) > most {
						t.Error("too many")
					}
					in.Add(-int64(items))
					w.Leave(items)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	way, waiting := w.Under()
	assert.Equal(t, []int{0, 0}, []int{way, waiting})
}
