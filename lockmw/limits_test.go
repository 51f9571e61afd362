package lockmw_test

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/adapter"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

// gauge counts who runs at once, and how many did at most.
type gauge struct{ now, most atomic.Int32 }

func (g *gauge) begin() (end func()) {
	n := g.now.Add(1)
	for most := g.most.Load(); n > most; most = g.most.Load() {
		g.most.CompareAndSwap(most, n)
	}
	return func() { g.now.Add(-1) }
}

func (g *gauge) run(d time.Duration) func(context.Context) error {
	return func(context.Context) error {
		defer g.begin()()
		elapse(d)
		return nil
	}
}

// limitBubble runs f with a keeper in a bubble.
func limitBubble(t *testing.T, f func(t *testing.T, k *renewer.Keeper)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		k, err := renewer.New(memory.New(),
			renewer.Config{TTL: 10 * time.Second, Log: renewer.Silent})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, k.Shutdown(context.Background())) })
		f(t, k)
	})
}

// At most three run at once, and three do: thirty calls of a second take ten.
func TestLimit(t *testing.T) {
	t.Parallel()
	limitBubble(t, func(t *testing.T, k *renewer.Keeper) {
		var g gauge
		var wg sync.WaitGroup
		begun := time.Now()
		for range 30 {
			wg.Go(func() {
				assert.NoError(t, lockmw.Run(t.Context(), k, lockmw.Limit("a", 3), g.run(time.Second),
					lockmw.Wait(time.Minute)))
			})
		}
		wg.Wait()
		assert.EqualValues(t, 3, g.most.Load())
		assert.Less(t, time.Since(begun), 11*time.Second)
	})
}

// A limit says by which number it refuses, how many hold it, and when the next
// may end.
func TestFullLimit(t *testing.T) {
	t.Parallel()
	limitBubble(t, func(t *testing.T, k *renewer.Keeper) {
		fill(t, k, lockmw.Limit("a", 2), 2)
		err := lockmw.Run(t.Context(), k, lockmw.Limit("a", 2), nothing, lockmw.Refuse())
		require.ErrorIs(t, err, renewer.ErrBusy)
		var e *renewer.Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, 2, e.Limit)
		assert.Equal(t, 2, e.Held)
		assert.Equal(t, "a", e.Name)
		assert.Positive(t, e.RetryAfter)
		assert.NotContains(t, err.Error(), "\x00")
		assert.Contains(t, err.Error(), "at its limit of 2, 2 held")
	})
}

func nothing(context.Context) error { return nil }

// fill has so many calls hold a name until the test ends.
func fill(t *testing.T, k *renewer.Keeper, name lockmw.Set, n int) {
	t.Helper()
	for range n {
		_, exit, err := adapter.Enter(t.Context(), k, name)
		require.NoError(t, err)
		t.Cleanup(func() { _ = exit(nil) })
	}
}

// The number is the caller's own: a lower one ends nobody, a higher one lets
// those in who wait, and 0 closes.
func TestTheNumberChanges(t *testing.T) {
	t.Parallel()
	limitBubble(t, func(t *testing.T, k *renewer.Keeper) {
		var n atomic.Int32
		n.Store(2)
		limit := lockmw.LimitFunc("a", func() int { return int(n.Load()) })
		var exits []func(error) error
		for range 2 {
			_, exit, err := adapter.Enter(t.Context(), k, limit)
			require.NoError(t, err)
			exits = append(exits, exit)
		}
		begun := time.Now()
		time.AfterFunc(time.Second, func() { n.Store(3) })
		ctx, exit, err := adapter.Enter(t.Context(), k, limit, lockmw.Wait(time.Minute))
		require.NoError(t, err)
		assert.Less(t, time.Since(begun), 10*time.Second)
		exits = append(exits, exit)
		n.Store(1)
		assert.ErrorIs(t, lockmw.Run(t.Context(), k, limit, nothing, lockmw.Refuse()), renewer.ErrBusy)
		assert.NoError(t, ctx.Err())
		n.Store(0)
		err = lockmw.Run(t.Context(), k, limit, nothing, lockmw.Wait(time.Hour))
		assert.ErrorIs(t, err, renewer.ErrLimitClosed)
		n.Store(-1)
		err = lockmw.Run(t.Context(), k, limit, nothing)
		assert.ErrorIs(t, err, renewer.ErrConfig)
		for _, exit := range exits {
			assert.NoError(t, exit(nil))
		}
	})
}

// A limit and a lock of one name are two things, also in one call chain.
func TestALimitIsNoLock(t *testing.T) {
	t.Parallel()
	limitBubble(t, func(t *testing.T, k *renewer.Keeper) {
		err := lockmw.Run(t.Context(), k, "a", func(ctx context.Context) error {
			assert.True(t, lockmw.Held(ctx, "a"))
			assert.False(t, lockmw.Held(ctx, lockmw.Limit("a", 1)))
			return lockmw.Run(ctx, k, lockmw.Limit("a", 1), func(ctx context.Context) error {
				assert.True(t, lockmw.Held(ctx, lockmw.Limit("a", 7)))
				assert.Positive(t, lockmw.FenceOf(ctx, lockmw.Limit("a", 1)))
				assert.NotEqual(t, lockmw.FenceOf(ctx, lockmw.Limit("a", 1)), lockmw.FenceOf(ctx, "a"))
				// its own slot serves the inner call too
				return lockmw.Run(ctx, k, lockmw.Limit("a", 1), nothing, lockmw.Refuse())
			}, lockmw.Refuse())
		})
		assert.NoError(t, err)
	})
}

// Several limits are had all or none: while one is full, nothing of the others
// stays behind.
func TestLimits(t *testing.T) {
	t.Parallel()
	limitBubble(t, func(t *testing.T, k *renewer.Keeper) {
		var g gauge
		users := make([]gauge, 5)
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				user := i % len(users)
				name := lockmw.All(lockmw.Limit("all", 7),
					lockmw.Limit("user:"+strconv.Itoa(user), 2))
				assert.NoError(t, lockmw.Run(t.Context(), k, name, func(ctx context.Context) error {
					assert.True(t, lockmw.Held(ctx, name))
					defer users[user].begin()()
					return g.run(time.Second)(ctx)
				}, lockmw.Wait(10*time.Minute)))
			})
		}
		wg.Wait()
		assert.EqualValues(t, 7, g.most.Load())
		for i := range users {
			assert.EqualValues(t, 2, users[i].most.Load())
		}
		fill(t, k, lockmw.Limit("wide", 3), 3)
		err := lockmw.Run(t.Context(), k, lockmw.All(lockmw.Limit("narrow", 1), lockmw.Limit("wide", 3)),
			nothing, lockmw.Refuse())
		var e *renewer.Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, "wide", e.Name)

		// Nor of those that come behind the one that is full.
		fill(t, k, lockmw.Limit("full", 1), 1)
		for range 3 {
			err = lockmw.Run(t.Context(), k, lockmw.All(lockmw.Limit("full", 1), lockmw.Limit("free", 2),
				lockmw.Limit("free too", 3)), nothing, lockmw.Refuse())
			require.ErrorAs(t, err, &e)
			assert.Equal(t, "full", e.Name)
		}
		fill(t, k, lockmw.Limit("free", 2), 2)
		fill(t, k, lockmw.Limit("free too", 3), 3)
		assert.NoError(t, lockmw.Run(t.Context(), k, lockmw.Limit("narrow", 1), nothing,
			lockmw.Refuse()))
	})
}

// Bad limits are refused before anything is asked.
func TestBadLimits(t *testing.T) {
	t.Parallel()
	k, err := renewer.New(memory.New(), renewer.Config{TTL: time.Second})
	require.NoError(t, err)
	defer func() { assert.NoError(t, k.Shutdown(context.Background())) }()
	limits := make([]lockmw.Set, 65)
	for i := range limits {
		limits[i] = lockmw.Limit("l"+strconv.Itoa(i), 3)
	}
	for i, c := range []struct {
		name lockmw.Set
		want error
	}{
		{lockmw.Limit("a", -1), renewer.ErrConfig},
		{lockmw.LimitFunc("a", nil), renewer.ErrConfig},
		{lockmw.All(lockmw.Limit("a", -1), lockmw.Limit("b", 1)), renewer.ErrConfig},
		{lockmw.Limit("", 3), renewer.ErrName},
		{lockmw.All(lockmw.Limit("a", 3), lockmw.Limit("a", 3)), renewer.ErrName},
		{lockmw.All(lockmw.Limit("a", 3), lockmw.Limit("b", 3), lockmw.Limit("a", 4)), renewer.ErrName},
		{lockmw.All(lockmw.Limit("a", 3), lockmw.Limit("", 3)), renewer.ErrName},
		{lockmw.All[string](), renewer.ErrName},
		{lockmw.Set{}, renewer.ErrName},
		{lockmw.Set{}.And(lockmw.Limit("a", 3)), renewer.ErrName},
		{lockmw.Invalid(errOperation), errOperation},
		{lockmw.Invalid(nil), renewer.ErrName},
		{lockmw.All(limits...), renewer.ErrName},
		{lockmw.Limit(lockmw.Key("tenant", "a"), 0), renewer.ErrLimitClosed},
	} {
		err := lockmw.Run(t.Context(), k, c.name, func(context.Context) error {
			t.Error("runs")
			return nil
		})
		assert.ErrorIs(t, err, c.want, i)
		assert.NotContains(t, renewer.ErrorText(err), `"a"`, "a log shows no name")
	}
}

// A closed limit among several refuses the call at once, which waited busily.
func TestAClosedLimitAmongSeveral(t *testing.T) {
	t.Parallel()
	limitBubble(t, func(t *testing.T, k *renewer.Keeper) {
		begun := time.Now()
		for _, name := range []lockmw.Set{
			lockmw.All(lockmw.Limit("a", 0), lockmw.Limit("b", 5)),
			lockmw.All("a", "b").And(lockmw.Limit("c", 0)),
		} {
			_, err := lockmw.Do(t.Context(), k, name, answer)
			assert.ErrorIs(t, err, renewer.ErrLimitClosed)
		}
		assert.Zero(t, time.Since(begun))
	})
}

// As many lead as the limit says.
func TestSeveralLead(t *testing.T) {
	t.Parallel()
	limitBubble(t, func(t *testing.T, k *renewer.Keeper) {
		var g gauge
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				assert.NoError(t, lockmw.Lead(t.Context(), k, lockmw.Limit("a", 2),
					g.run(time.Second)))
			})
		}
		wg.Wait()
		assert.EqualValues(t, 2, g.most.Load())
		assert.ErrorIs(t, lockmw.Lead(t.Context(), k, lockmw.Limit("a", 0), nothing),
			renewer.ErrLimitClosed)
	})
}
