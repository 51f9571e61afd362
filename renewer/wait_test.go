package renewer_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// However many want a lock here, one asks the store, and they get it
// in the order in which they came.
func TestCallersStandInLine(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Mute(true)
		s.Script(script.Acquire, script.Taken(other, 2*time.Second))
		const n = 50
		var order []int
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				l, err := k.Acquire(t.Context(), renewer.Request{Name: "a"})
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, i) // under the lock
				waitFor(time.Millisecond)
				if err := l.Release(t.Context()); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait() // so that they come one after the other
		}
		require.Len(t, s.Calls(script.Acquire), 1, "one contender")
		wg.Wait()
		for i := range n {
			require.Equal(t, i, order[i])
		}
		require.Len(t, s.Calls(script.Acquire), 1+5, "asked anew every 10 ms of hand-offs")
		names, _ := k.NamesAndOrphans()
		require.Zero(t, names)
		require.Zero(t, s.Watchers("a"))
	})
}

// Those who will not wait get the answer of the one who asks, and do not ask
// themselves.
func TestTriersShareTheHeadsAnswer(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		step script.Step
		want error
	}{
		"granted":     {script.Pass().Late(time.Second), renewer.ErrBusy},
		"taken":       {script.Taken(other, time.Minute).Late(time.Second), renewer.ErrBusy},
		"unavailable": {script.Fail(errDown).Late(time.Second), renewer.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				s.Script(script.Acquire, tt.step)
				head := waits(t.Context(), k, renewer.Request{Try: true})
				var others []<-chan error
				for range 100 {
					others = append(others, waits(t.Context(), k, renewer.Request{Try: true}))
				}
				for _, c := range others {
					require.ErrorIs(t, <-c, tt.want)
				}
				require.NotErrorIs(t, <-head, renewer.ErrShutdown)
				require.Len(t, s.Calls(script.Acquire), 1)
			})
		})
	}
}

// Also when the one who asks goes on waiting.
func TestTriersDoNotWaitWithTheHead(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Script(script.Acquire, script.Taken(other, time.Minute).Late(time.Second))
		ctx, cancel := context.WithCancel(t.Context())
		head := waits(ctx, k)
		begun := time.Now()
		_, err := k.Acquire(t.Context(), renewer.Request{Name: "a", Try: true})
		require.ErrorIs(t, err, renewer.ErrBusy)
		require.ErrorContains(t, err, "there pid 7")
		assertInstant(t, begun.Add(time.Second), time.Now(), "return")
		_, err = k.Acquire(t.Context(), renewer.Request{Name: "a", Try: true})
		require.ErrorIs(t, err, renewer.ErrBusy, "and later ones at once")
		assertInstant(t, begun.Add(time.Second), time.Now(), "return")
		cancel()
		require.ErrorIs(t, <-head, context.Canceled)
	})
}

// A caller whose patience ends before anybody knows who has the lock is not
// told that it is busy.
func TestBusyIsNeverGuessed(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Default(script.Acquire, script.Hang())
		ctx, cancel := context.WithCancel(t.Context())
		head := waits(ctx, k)
		_, err := k.Acquire(t.Context(), renewer.Request{Name: "a", MaxWait: time.Second})
		require.ErrorIs(t, err, renewer.ErrUnavailable)
		require.NotErrorIs(t, err, renewer.ErrBusy)
		cancel()
		require.ErrorIs(t, <-head, context.Canceled)
	})
}

// The lease of a lost lock does not block the queue: the next caller
// may ask, and the store decides.
func TestALossMovesTheLine(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		first := acquire(t, k, "a")
		s.Default(script.Renew, script.Hang())
		got := make(chan *renewer.Lease)
		go func() {
			l, err := k.Acquire(t.Context(), renewer.Request{Name: "a"})
			if err != nil {
				t.Error(err)
			}
			got <- l
		}()
		at, _ := lostAt(t, first)
		second := <-got
		require.Greater(t, second.Fence(), first.Fence())
		require.GreaterOrEqual(t, time.Since(at), config.Margin, "not before the key has lapsed")
		s.Default(script.Renew, script.Pass())
		require.ErrorIs(t, first.Release(t.Context()), renewer.ErrLost)
		waitFor(time.Minute)
		require.True(t, second.Valid(), "the late release of the first does not touch the second")
		require.NoError(t, second.Release(t.Context()))
	})
}

// While a lock is being released here it is not known to be taken, and the
// store is not down: who will not wait for others waits for that, and gets it.
func TestATryDuringARelease(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		l := acquire(t, k, "a", renewer.Request{Operation: "export"})
		s.Script(script.Release, script.Pass().Slow(2*time.Millisecond))
		released := background(func() error { return l.Release(t.Context()) })
		waitFor(time.Millisecond)
		begun := time.Now()
		next, err := k.Acquire(t.Context(), renewer.Request{Name: "a", Try: true})
		require.NoError(t, err)
		require.Equal(t, time.Millisecond, time.Since(begun))
		require.NoError(t, <-released)

		// Nor is it when the caller's time is over before that.
		s.Script(script.Release, script.Pass().Slow(1500*time.Millisecond))
		released = background(func() error { return next.Release(t.Context()) })
		waitFor(time.Millisecond)
		_, err = k.Acquire(t.Context(), renewer.Request{Name: "a", MaxWait: time.Second})
		require.ErrorIs(t, err, renewer.ErrBusy)
		require.NotErrorIs(t, err, renewer.ErrUnavailable)
		require.ErrorContains(t, err, "last seen with here")
		require.NoError(t, <-released)
	})
}
