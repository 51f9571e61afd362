package asking_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer/internal/asking"
	"github.com/lockbeat/lockbeat/renewer/internal/timing"
)

type valueKey struct{}

// However many questions begin together, each has its time: all of it, or a
// sixteenth less.
func TestARequestHasItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const timeout = 16 * time.Second
		r := asking.NewRequests(timeout, timing.NewClock(func() time.Duration { return 0 }))
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
			<-time.After(timeout / 64)
		}
		assert.Len(t, contexts, 3, "one for each sixteenth of the time")
		<-time.After(timeout)
		synctest.Wait()

		ctx := r.Limited(context.Background())
		r.End()
		assert.ErrorIs(t, ctx.Err(), context.Canceled)
		assert.ErrorIs(t, r.Limited(context.Background()).Err(), context.Canceled)
	})
}
