package lockmw_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/engine"
	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/adapter"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// away is a store that may be away: then it answers nothing.
type away struct {
	engine.Whole
	is    atomic.Bool
	asked atomic.Int32
}

func (a *away) Engine() store.Store { return a }

func (a *away) Acquire(ctx context.Context, claims []store.Claim) []store.Grant {
	a.asked.Add(1)
	if !a.is.Load() {
		return a.Whole.Acquire(ctx, claims)
	}
	<-ctx.Done()
	grants := make([]store.Grant, len(claims))
	for i := range grants {
		grants[i].Err = ctx.Err()
	}
	return grants
}

// sharing runs f in a bubble, with a keeper on a store that may be away.
func sharing(t *testing.T, o renewer.Observer, f func(t *testing.T, s *away, k *renewer.Keeper)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &away{Whole: engine.In(memory.New())}
		k, err := renewer.New(s,
			renewer.Config{TTL: 10 * time.Second, Observer: o, Log: renewer.Silent})
		require.NoError(t, err)
		defer func() { require.NoError(t, k.Shutdown(t.Context())) }()
		f(t, s, k)
	})
}

// told counts what an observer is told.
type told struct {
	renewer.NopObserver
	unlocked atomic.Int32
}

func (o *told) Unlocked(context.Context, renewer.Unlocked) { o.unlocked.Add(1) }

// While the store is away each process admits its share, without waiting; with
// the first answer that is over.
func TestLocalShare(t *testing.T) {
	t.Parallel()
	o := new(told)
	sharing(t, o, func(t *testing.T, s *away, k *renewer.Keeper) {
		call := func(fn func(context.Context) error) error {
			return lockmw.Run(t.Context(), k, lockmw.All(lockmw.Limit("a", 4), lockmw.Limit("b", 9)), fn,
				lockmw.LocalShare(2), lockmw.Wait(time.Minute))
		}
		require.NoError(t, call(nothing))
		require.Zero(t, o.unlocked.Load())

		s.is.Store(true)
		var g gauge
		var wg sync.WaitGroup
		var refused atomic.Int32
		for range 20 {
			wg.Go(func() {
				err := call(func(ctx context.Context) error {
					held := lockmw.Held(ctx, lockmw.Limit("a", 4)) // of one that asked to the end
					assert.Equal(t, held, lockmw.Fence(ctx) != 0)
					return g.run(time.Minute)(ctx)
				})
				if errors.Is(err, renewer.ErrUnavailable) {
					refused.Add(1)
				}
			})
		}
		elapse(k.Config().FailOver - time.Millisecond)
		assert.Zero(t, refused.Load()+g.now.Load(), "all wait through a fail-over")
		elapse(2 * time.Millisecond)
		assert.EqualValues(t, 18, refused.Load())
		assert.EqualValues(t, 2, g.now.Load())
		assert.EqualValues(t, 4, o.unlocked.Load(), "each call for each of its two limits")

		s.is.Store(false)
		for k.Outage("a") != 0 { // until the first answer
			elapse(time.Millisecond)
		}
		var after gauge
		for range 20 {
			wg.Go(func() { assert.NoError(t, call(after.run(time.Second))) })
		}
		wg.Wait()
		assert.EqualValues(t, 4, after.most.Load(), "by slots")
	})
}

// A share of nothing is refused before anything is asked.
func TestBadShares(t *testing.T) {
	t.Parallel()
	sharing(t, renewer.NopObserver{}, func(t *testing.T, s *away, k *renewer.Keeper) {
		for _, n := range []int{0, -1} {
			limit := lockmw.Limit("a", 3)
			err := lockmw.Run(t.Context(), k, limit, nothing, lockmw.LocalShare(n))
			assert.ErrorIs(t, err, renewer.ErrConfig)
			_, _, err = adapter.Enter(t.Context(), k, limit, lockmw.LocalShare(n))
			assert.ErrorIs(t, err, renewer.ErrConfig)
		}
		assert.Zero(t, s.asked.Load())
	})
}

// A call inside one that runs by a share, for the same limit, runs in that
// share.
func TestNestedInALocalShare(t *testing.T) {
	t.Parallel()
	o := new(told)
	sharing(t, o, func(t *testing.T, s *away, k *renewer.Keeper) {
		call := func(ctx context.Context, name lockmw.Set, fn func(context.Context) error) error {
			return lockmw.Run(ctx, k, name, fn, lockmw.LocalShare(1), lockmw.Wait(time.Minute))
		}
		a, b := lockmw.Limit("a", 3), lockmw.Limit("b", 3)
		s.is.Store(true)
		require.NoError(t, call(t.Context(), a, func(ctx context.Context) error {
			require.ErrorIs(t, call(t.Context(), a, nothing), renewer.ErrUnavailable)
			return call(ctx, lockmw.All(a, b), func(ctx context.Context) error {
				require.ErrorIs(t, call(t.Context(), b, nothing), renewer.ErrUnavailable)
				return call(ctx, a, nothing)
			})
		}))
		assert.EqualValues(t, 2, o.unlocked.Load(), "one for each limit")
		over := make(chan context.Context, 1)
		require.NoError(t, call(t.Context(), b, func(ctx context.Context) error {
			over <- context.WithoutCancel(ctx)
			return nil
		}), "all is given back")
		require.NoError(t, call(<-over, b, func(context.Context) error {
			require.ErrorIs(t, call(t.Context(), b, nothing), renewer.ErrUnavailable)
			return nil
		}), "one that is over counts for nothing")
		s.is.Store(false)
	})
}

// partly is a cluster of which the part that has names like "a" is away.
type partly struct{ engine.Whole }

func (p partly) Engine() store.Store { return p }

func (partly) Shard(name string) int {
	if strings.HasPrefix(name, "a") {
		return 1
	}
	return 0
}

func (p partly) Acquire(ctx context.Context, claims []store.Claim) []store.Grant {
	grants := make([]store.Grant, len(claims))
	var away []int
	for i, c := range claims {
		if p.Shard(c.Name) == 0 {
			grants[i] = p.Whole.Acquire(ctx, []store.Claim{c})[0]
		} else {
			away = append(away, i)
		}
	}
	for _, i := range away {
		<-ctx.Done()
		grants[i].Err = ctx.Err()
	}
	return grants
}

// Where a part of a cluster is away, a call for several limits takes its share
// of all of them, also inside another one, and leaves nothing behind in the
// part that is there.
func TestLocalShareOfAPart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, err := renewer.New(partly{engine.In(memory.New())},
			renewer.Config{TTL: 10 * time.Second, Log: renewer.Silent})
		require.NoError(t, err)
		defer func() { require.NoError(t, k.Shutdown(t.Context())) }()
		a, b := lockmw.Limit("a", 1), lockmw.Limit("b", 1)
		call := func(ctx context.Context, name lockmw.Set, fn func(context.Context) error) error {
			return lockmw.Run(ctx, k, name, fn, lockmw.LocalShare(1), lockmw.Wait(time.Minute))
		}
		both := func(ctx context.Context) error {
			return call(ctx, lockmw.All(a, b), func(context.Context) error {
				return call(t.Context(), b, nothing) // its slot is free
			})
		}
		require.NoError(t, both(t.Context()))
		require.NoError(t, call(t.Context(), a, both))
	})
}

// Those who stand in line when the store goes away have a share, or are
// refused, as those who come.
func TestLocalShareOfThoseInLine(t *testing.T) {
	t.Parallel()
	sharing(t, renewer.NopObserver{}, func(t *testing.T, s *away, k *renewer.Keeper) {
		other, err := renewer.New(s, renewer.Config{TTL: 10 * time.Second, Log: renewer.Silent})
		require.NoError(t, err)
		defer func() { require.NoError(t, other.Shutdown(t.Context())) }()
		_, exit, err := adapter.Enter(t.Context(), other, lockmw.Limit("a", 1))
		require.NoError(t, err)
		defer func() { require.NoError(t, exit(nil)) }()
		var g gauge
		call := func(wait time.Duration) error {
			return lockmw.Run(t.Context(), k, lockmw.Limit("a", 1), g.run(time.Second),
				lockmw.LocalShare(3), lockmw.Wait(wait))
		}
		answers := make(chan error, 5)
		for range cap(answers) {
			go func() { answers <- call(time.Minute) }()
		}
		synctest.Wait()
		s.is.Store(true)
		begun := time.Now()
		require.NoError(t, lockmw.Run(t.Context(), k, lockmw.Limit("b", 1), nothing,
			lockmw.LocalShare(1)), "it finds out")
		for i := range cap(answers) {
			if err := <-answers; err != nil {
				assert.ErrorIs(t, err, renewer.ErrUnavailable, i)
			}
		}
		assert.LessOrEqual(t, time.Since(begun), k.Config().FailOver+time.Second+time.Millisecond,
			"and what the share runs")
		assert.EqualValues(t, 3, g.most.Load())
		s.is.Store(false)
	})
}

// Enter's exit gives the share back, once.
func TestEnterByLocalShare(t *testing.T) {
	t.Parallel()
	sharing(t, renewer.NopObserver{}, func(t *testing.T, s *away, k *renewer.Keeper) {
		s.is.Store(true)
		for range 3 {
			limit, share := lockmw.Limit("a", 9), lockmw.LocalShare(1)
			ctx, exit, err := adapter.Enter(t.Context(), k, limit, share)
			require.NoError(t, err)
			assert.NoError(t, ctx.Err())
			_, _, err = adapter.Enter(t.Context(), k, limit, share)
			require.ErrorIs(t, err, renewer.ErrUnavailable)
			assert.NoError(t, exit(nil))
			assert.NoError(t, exit(nil))
		}
	})
}

// panicking is an observer that panics when it is told of a call without a
// lock.
type panicking struct{ renewer.NopObserver }

func (panicking) Unlocked(context.Context, renewer.Unlocked) { panic("observer") }

// A share that an observer's panic ends is free again.
func TestAShareWhoseObserverPanics(t *testing.T) {
	t.Parallel()
	sharing(t, panicking{}, func(t *testing.T, s *away, k *renewer.Keeper) {
		s.is.Store(true)
		for range 3 {
			assert.PanicsWithValue(t, "observer", func() {
				_ = lockmw.Run(t.Context(), k, lockmw.Limit("a", 9), nothing, lockmw.LocalShare(1))
			})
		}
	})
}
