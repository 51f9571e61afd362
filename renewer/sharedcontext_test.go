package renewer_test

import (
	"context"
	"sync/atomic"
	"testing"
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

// AfterFunc is what the context package calls where it does not know the kind
// of parent.
func (f *followed) AfterFunc(func()) (stop func() bool) {
	f.followers.Add(1)
	return func() bool {
		f.followers.Add(-1)
		return true
	}
}

// A context for each request would stay with the caller's, for as long as that
// lives.
func TestAWaitingCallersRequestsShareAContext(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Default(script.Acquire, script.Taken(other, time.Hour))
		ctx := &followed{Context: t.Context(), done: make(chan struct{})}
		over := make(chan error, 1)
		go func() {
			_, err := k.Acquire(ctx, renewer.Request{Name: "a", MaxWait: time.Minute})
			over <- err
		}()
		waitFor(59 * time.Second)
		require.Greater(t, len(s.Calls(script.Acquire)), 3)
		assert.EqualValues(t, 1, ctx.followers.Load())
		require.ErrorIs(t, <-over, renewer.ErrBusy)
		assert.Zero(t, ctx.followers.Load())
	})
}
