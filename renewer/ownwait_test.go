package renewer_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// A deadline that ends a wait is the caller's own, and says that the lock was
// another owner's: in this process or elsewhere. It is not where nobody knows
// that, nor does a cancellation say so.
func TestADeadlineThatEndsAWaitIsHeld(t *testing.T) {
	t.Parallel()
	elsewhere := func(_ *testing.T, s *script.Store, _ *renewer.Keeper) {
		s.Default(script.Acquire, script.Taken(store.Holder{Node: "there"}, time.Minute))
	}
	for name, c := range map[string]struct {
		setup  func(*testing.T, *script.Store, *renewer.Keeper)
		cancel bool
		held   bool
	}{
		"elsewhere": {elsewhere, false, true},
		"in this process": {func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
			l := acquire(t, k, "a")
			time.AfterFunc(time.Minute, func() { assert.NoError(t, l.Release(t.Context())) })
		}, false, true},
		"the store does not answer": {func(_ *testing.T, s *script.Store, _ *renewer.Keeper) {
			s.Default(script.Acquire, script.Hang())
		}, false, false},
		"cancelled": {elsewhere, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				c.setup(t, s, k)
				ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
				defer cancel()
				want := context.DeadlineExceeded
				if c.cancel {
					want = context.Canceled
					time.AfterFunc(time.Second, cancel)
				}
				_, err := k.Acquire(ctx, renewer.Request{Name: "a"})
				require.ErrorIs(t, err, want)
				assert.Equal(t, c.held, errors.Is(err, renewer.ErrBusy), err)
				waitFor(time.Minute)
			})
		})
	}
}

// A caller whose time is over just as the one before it in line asks the store,
// which has not answered yet, has waited for a holder: it is no outage.
func TestAWaitThatEndsBetweenTwoHolders(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		l := acquire(t, k, "a")
		var waits sync.WaitGroup
		for _, wait := range []time.Duration{10 * time.Second, 2 * time.Second} {
			waits.Go(func() {
				_, err := k.Acquire(t.Context(), renewer.Request{Name: "a", MaxWait: wait})
				if wait < 10*time.Second {
					assert.ErrorIs(t, err, renewer.ErrBusy)
					assert.NotErrorIs(t, err, renewer.ErrUnavailable)
				}
			})
			synctest.Wait()
		}
		waitFor(2*time.Second - time.Millisecond)
		s.Default(script.Acquire, script.Hang())
		require.NoError(t, l.Abort(t.Context()))
		waits.Wait()
	})
}

// The same for callers who all come at once, before any has the lock.
func TestAWaitOfACrowdThatEndsBetweenTwoHolders(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Default(script.Acquire, script.Pass().Late(10*time.Millisecond))
		ended := make(map[string]int)
		var mu sync.Mutex
		var crowd sync.WaitGroup
		for range 100 {
			crowd.Go(func() {
				l, err := k.Acquire(t.Context(), renewer.Request{Name: "a", MaxWait: time.Second})
				if err == nil {
					waitFor(10 * time.Millisecond)
					assert.NoError(t, l.Abort(t.Context()))
				}
				mu.Lock()
				defer mu.Unlock()
				switch {
				case errors.Is(err, renewer.ErrBusy):
					ended["busy"]++
				case err != nil:
					ended[err.Error()]++
				}
			})
		}
		crowd.Wait()
		require.Equal(t, map[string]int{"busy": 50}, ended)
	})
}

const passedOn = "by this process: was the context of that operation passed on?"

// A caller that has waited in vain for an operation of the same process hears
// that it is that: as when a call inside of a lock is made without its context,
// or two take two locks in two orders.
func TestAWaitForOneself(t *testing.T) {
	t.Parallel()
	const wait = 10 * time.Second
	t.Run("inside itself", func(t *testing.T) {
		t.Parallel()
		inBubble(t, config, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
			l := acquire(t, k, "a")
			waitFor(time.Second)
			_, err := k.Acquire(t.Context(), renewer.Request{Name: "a", MaxWait: wait})
			require.ErrorIs(t, err, renewer.ErrBusy)
			require.ErrorContains(t, err, "for 11s by then, "+passedOn)
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			defer cancel()
			_, err = k.Acquire(ctx, renewer.Request{Name: "a"})
			require.ErrorContains(t, err, "for 21s by then, "+passedOn)
			require.NoError(t, l.Release(t.Context()))
		})
	})
	t.Run("two orders", func(t *testing.T) {
		t.Parallel()
		inBubble(t, config, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
			both := func(first, second string) <-chan error {
				return background(func() error {
					l, err := k.Acquire(t.Context(), renewer.Request{Name: first})
					if err != nil {
						return err
					}
					defer func() { assert.NoError(t, l.Release(t.Context())) }()
					waitFor(time.Second)
					_, err = k.Acquire(t.Context(), renewer.Request{Name: second, MaxWait: wait})
					return err
				})
			}
			a, b := both("a", "b"), both("b", "a")
			for _, err := range []error{<-a, <-b} { // the two end at one instant
				require.ErrorIs(t, err, renewer.ErrBusy)
				require.ErrorContains(t, err, passedOn)
			}
		})
	})
	t.Run("a crowd", func(t *testing.T) {
		t.Parallel()
		inBubble(t, config, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
			for range 20 {
				go func() {
					if l, err := k.Acquire(t.Context(), renewer.Request{
						Name: "a",
					}); assert.NoError(t, err) {
						waitFor(time.Second)
						assert.NoError(t, l.Release(t.Context()))
					}
				}()
			}
			synctest.Wait()
			_, err := k.Acquire(t.Context(), renewer.Request{
				Name: "a", MaxWait: wait + time.Second/2,
			}) // within a turn
			require.ErrorIs(t, err, renewer.ErrBusy)
			require.NotContains(t, err.Error(), passedOn, "they took turns")
			waitFor(time.Minute)
		})
	})
}
