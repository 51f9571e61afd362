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
	"github.com/lockbeat/lockbeat/testutil/script"
)

// followed is a context that counts who has it end them too.
type followed struct {
	context.Context

	done      chan struct{}
	followers atomic.Int32
}

func (f *followed) Done() <-chan struct{} { return f.done }
func (f *followed) Value(any) any         { return nil }

// AfterFunc is what the context package calls where it does not know the kind of parent.
func (f *followed) AfterFunc(func()) (stop func() bool) {
	f.followers.Add(1)
	return func() bool {
		f.followers.Add(-1)
		return true
	}
}

// A context for each request would stay with the caller's, for as long as that lives.
func TestAWaitingCallersRequestsShareAContext(t *testing.T) {
	t.Parallel()
	in(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Default(script.Acquire, script.Taken(other, time.Hour))
		ctx := &followed{Context: t.Context(), done: make(chan struct{})}
		over := make(chan error, 1)
		go func() {
			_, err := k.Acquire(ctx, "a", renewer.MaxWait(time.Minute))
			over <- err
		}()
		pass(59 * time.Second)
		require.Greater(t, len(s.Calls(script.Acquire)), 3)
		assert.EqualValues(t, 1, ctx.followers.Load())
		require.ErrorIs(t, <-over, renewer.ErrHeld)
		assert.Zero(t, ctx.followers.Load())
	})
}

// However many questions begin together, each has its time: all of it, or a sixteenth less.
func TestARequestHasItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const timeout = 16 * time.Second
		r := renewer.NewRequests(timeout)
		defer r.End()
		caller, cancel := context.WithCancel(context.WithValue(t.Context(), valueKey{}, "value"))
		cancel()
		contexts := make(map[context.Context]bool)
		for range 10 {
			contexts[r.Limited(context.Background())] = true
			valued := r.Limited(caller)
			require.NoError(t, valued.Err(), "the caller's end does not matter")
			assert.Equal(t, "value", valued.Value(valueKey{}))
			begun := time.Now()
			go func() {
				<-valued.Done()
				took := time.Since(begun)
				assert.LessOrEqual(t, took, timeout)
				assert.GreaterOrEqual(t, took, timeout*15/16)
			}()
			pass(timeout / 64)
		}
		assert.Len(t, contexts, 3, "one for each sixteenth of the time")
		pass(timeout)
		synctest.Wait()

		ctx := r.Limited(context.Background())
		r.End()
		assert.ErrorIs(t, ctx.Err(), context.Canceled)
		assert.ErrorIs(t, r.Limited(context.Background()).Err(), context.Canceled)
	})
}
