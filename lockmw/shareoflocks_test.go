package lockmw_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/adapter"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// unlocked hears of operations that run without their locks.
type unlocked struct {
	renewer.NopObserver
	heard []renewer.Unlocked
}

func (o *unlocked) Unlocked(_ context.Context, e renewer.Unlocked) { o.heard = append(o.heard, e) }

// inOutage calls f in a bubble in which the store has not answered for long
// enough.
func inOutage(
	t *testing.T, f func(t *testing.T, k *renewer.Keeper, s *script.Store, o *unlocked),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, o := script.New(), &unlocked{}
		k, err := renewer.New(s, renewer.Config{
			TTL: renewer.DefaultTTL, Observer: o, Log: renewer.Silent,
		})
		require.NoError(t, err)
		s.Default(script.Acquire, script.Fail(errDown))
		err = lockmw.Run(t.Context(), k, "any", nothing, lockmw.Refuse())
		require.ErrorIs(t, err, renewer.ErrUnavailable)
		elapse(k.Config().FailOver)
		f(t, k, s, o)
		require.NoError(t, k.Shutdown(t.Context()))
	})
}

// What runs without its lock has no token, and is told of.
func TestWhatRunsByAShareIsToldOf(t *testing.T) {
	t.Parallel()
	inOutage(t, func(t *testing.T, k *renewer.Keeper, _ *script.Store, o *unlocked) {
		begun := time.Now()
		require.NoError(t, lockmw.Run(adapter.WithFence(t.Context(), 7), k, "a",
			func(ctx context.Context) error {
				assert.False(t, lockmw.Held(ctx, "a"))
				assert.Zero(t, lockmw.Fence(ctx), "nor that of an outer lock")
				return nil
			}, lockmw.Wait(time.Second), lockmw.LocalShare(1), lockmw.Operation("transfer")))
		assert.Zero(t, time.Since(begun))
		require.Len(t, o.heard, 1)
		require.ErrorIs(t, o.heard[0].Err, renewer.ErrUnavailable)
		o.heard[0].Err = nil
		assert.Equal(t, renewer.Unlocked{
			Name: "a", Operation: "transfer", Outage: k.Config().FailOver,
		}, o.heard[0])
	})
}

// Under load calls run out of time while the store answers others: a caller
// could get rid of the lock by making the store busy.
func TestLocalShareIsForOutagesAndNotForLoad(t *testing.T) {
	t.Parallel()
	inOutage(t, func(t *testing.T, k *renewer.Keeper, s *script.Store, o *unlocked) {
		refused := func() {
			require.ErrorIs(t, lockmw.Run(t.Context(), k, "a", nothing, lockmw.Wait(time.Second),
				lockmw.LocalShare(1)), renewer.ErrUnavailable)
		}
		s.Script(script.Acquire, script.Pass())
		for k.Outage("") != 0 {
			elapse(time.Millisecond)
		}
		s.Script(script.Acquire, script.Hang())
		refused()
		for _, up := range []error{renewer.ErrOverloaded, renewer.ErrRejected} {
			s.Default(script.Acquire, script.Fail(fmt.Errorf("%w: by a server that is up", up)))
			for range 3 {
				refused()
				elapse(k.Config().FailOver)
			}
		}
		assert.Empty(t, o.heard)
	})
}

// A share is of one name. A call for several takes that of each or none, and
// what ends by a panic gives it back. A lock and a limit of one name are two
// things.
func TestLocalSharesOfNames(t *testing.T) {
	t.Parallel()
	inOutage(t, func(t *testing.T, k *renewer.Keeper, _ *script.Store, o *unlocked) {
		call := func(fn func(context.Context) error, names ...string) error {
			return lockmw.Run(t.Context(), k, lockmw.All(names...), fn, lockmw.Refuse(),
				lockmw.LocalShare(3)) // of a lock one
		}
		require.PanicsWithValue(t, "a function", func() {
			_ = call(func(context.Context) error { panic("a function") }, "a")
		})
		require.NoError(t, call(func(context.Context) error {
			for _, names := range [][]string{{"a"}, {"b", "a"}, {"c"}} {
				require.ErrorIs(t, call(nothing, names...), renewer.ErrUnavailable)
			}
			require.NoError(t, call(nothing, "b"), "it was not taken with a")
			return lockmw.Run(t.Context(), k, lockmw.Limit("a", 9), nothing, lockmw.Refuse(),
				lockmw.LocalShare(1))
		}, "a", "c"))
		require.NoError(t, call(nothing, "b", "a"))
		var told []string
		for _, e := range o.heard {
			told = append(told, e.Name)
		}
		assert.Equal(t, []string{"a", "a", "c", "b", "a", "a", "b"}, told)
	})
}
