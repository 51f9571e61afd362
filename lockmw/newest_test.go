package lockmw_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/adapter"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// inMemory runs f in a bubble with the keepers of two processes.
func inMemory(t *testing.T, f func(t *testing.T, here, there *renewer.Keeper)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store, keepers := memory.New(), [2]*renewer.Keeper{}
		for i, node := range []string{"here", "there"} {
			k, err := renewer.New(store,
				renewer.Config{TTL: renewer.DefaultTTL, Node: node, Log: renewer.Silent})
			require.NoError(t, err)
			keepers[i] = k
			defer func() { require.NoError(t, k.Shutdown(t.Context())) }()
		}
		f(t, keepers[0], keepers[1])
	})
}

// ranFor has a call ask for the lock on a, whose function ends a while after
// its context has, if that ends. What it returns has the call's error.
func ranFor(
	ctx context.Context, k *renewer.Keeper, least, after time.Duration, opts ...lockmw.Option,
) (over <-chan error) {
	done := make(chan error, 1)
	go func() {
		_, err := lockmw.Do(ctx, k, "a", func(ctx context.Context) (int, error) {
			select {
			case <-ctx.Done():
				elapse(after)
				return 0, ctx.Err()
			case <-time.After(least):
				return 1, nil
			}
		}, opts...)
		done <- err
	}()
	synctest.Wait()
	return done
}

// The newest call has the lock once the one before has returned. The one
// between them, which waited, has not run.
func TestReplace(t *testing.T) {
	t.Parallel()
	inMemory(t, func(t *testing.T, here, there *renewer.Keeper) {
		begun := time.Now()
		first := ranFor(t.Context(), here, time.Hour, time.Second)
		second := ranFor(t.Context(), there, time.Hour, 0, lockmw.Replace())
		third := ranFor(t.Context(), here, time.Minute, 0, lockmw.Replace())

		err := <-second
		assert.Equal(t, begun, time.Now(), "at once")
		require.ErrorIs(t, err, renewer.ErrBusy)
		require.ErrorIs(t, err, renewer.ErrReplaced)
		assert.Equal(t, adapter.RefusalReplaced, adapter.RefusalOf(err))

		err = <-first
		require.ErrorIs(t, err, renewer.ErrReplaced)
		require.ErrorIs(t, err, renewer.ErrLost)
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, <-third)
		assert.Equal(t, begun.Add(time.Second+time.Minute), time.Now(), "none beside another")
	})
}

// What runs is done, and then the newest of those that wait.
func TestLatest(t *testing.T) {
	t.Parallel()
	inMemory(t, func(t *testing.T, here, there *renewer.Keeper) {
		begun := time.Now()
		first := ranFor(t.Context(), here, 5*time.Second, 0, lockmw.Latest())
		second := ranFor(t.Context(), there, time.Second, 0, lockmw.Latest())
		third := ranFor(t.Context(), there, time.Second, 0, lockmw.Latest())
		require.ErrorIs(t, <-second, renewer.ErrReplaced)
		assert.Equal(t, begun, time.Now(), "at once")
		require.NoError(t, <-first)
		require.NoError(t, <-third)
		assert.Equal(t, begun.Add(6*time.Second), time.Now())
	})
}

// Wait bounds the newest call, too, wherever it stands. Of contradictions the
// later one counts.
func TestPoliciesWithReplace(t *testing.T) {
	t.Parallel()
	type options = []lockmw.Option
	newest, d := lockmw.Replace(), 3*time.Second
	for name, c := range map[string]struct {
		opts     options
		waits    time.Duration
		replaced bool
	}{
		"by default":     {options{newest}, lockmw.DefaultWait, true},
		"Wait before":    {options{lockmw.Wait(d), newest}, d, true},
		"Wait after":     {options{newest, lockmw.Wait(d)}, d, true},
		"a refusal then": {options{newest, lockmw.Refuse()}, 0, false},
		"after Refuse":   {options{lockmw.Refuse(), newest}, lockmw.DefaultWait, true},
		"Latest":         {options{newest, lockmw.Latest()}, lockmw.DefaultWait, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inMemory(t, func(t *testing.T, here, there *renewer.Keeper) {
				ctx, stop := context.WithCancel(t.Context())
				deaf := ranFor(ctx, here, time.Hour, 14*time.Second)
				begun := time.Now()
				_, err := lockmw.Do(ctx, there, "a", answer, c.opts...)
				require.ErrorIs(t, err, renewer.ErrBusy)
				require.NotErrorIs(t, err, renewer.ErrReplaced, "it is the newest")
				assert.Equal(t, c.waits, time.Since(begun))
				stop()
				err = <-deaf
				require.ErrorIs(t, err, context.Canceled)
				if c.replaced {
					require.ErrorIs(t, err, renewer.ErrReplaced)
				} else {
					require.NotErrorIs(t, err, renewer.ErrReplaced)
				}
			})
		})
	}
}

// What is not one lock, and a store that does not know the newest call, are
// errors at the call.
func TestReplaceOfWhatHasNoNewestCall(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		name lockmw.Set
		opts []lockmw.Option
		says string
	}{
		"several":       {lockmw.All("a", "b"), nil, "several names"},
		"a limit":       {lockmw.Limit("a", 2), nil, "limit"},
		"a share":       {lockmw.Limit("a", 2), []lockmw.Option{lockmw.LocalShare(1)}, "limit"},
		"another store": {lockmw.All("a"), nil, "*script.Store"},
	} {
		for _, newest := range []lockmw.Option{lockmw.Replace(), lockmw.Latest()} {
			inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				_, err := lockmw.Do(t.Context(), k, c.name, answer, append(c.opts, newest)...)
				require.ErrorIs(t, err, renewer.ErrConfig, name)
				require.ErrorContains(t, err, c.says)
				assert.Equal(t, adapter.RefusalMisuse, adapter.RefusalOf(err))
				assert.Empty(t, s.Calls(script.Acquire), "nothing was asked")
			})
		}
	}
}

// A call inside the lock does not replace the call around it.
func TestReplaceInsideTheLock(t *testing.T) {
	t.Parallel()
	inMemory(t, func(t *testing.T, here, _ *renewer.Keeper) {
		_, err := lockmw.Do(t.Context(), here, "a", func(ctx context.Context) (int, error) {
			fence := lockmw.Fence(ctx)
			return lockmw.Do(ctx, here, "a", func(ctx context.Context) (int, error) {
				assert.Equal(t, fence, lockmw.Fence(ctx))
				return 0, ctx.Err()
			}, lockmw.Replace())
		}, lockmw.Replace())
		require.NoError(t, err)
	})
}

// A caller of Keys whose one lock is replaced while it waits for another has
// not run: it tries again, and is not refused.
func TestKeysOfWhichOneIsReplaced(t *testing.T) {
	t.Parallel()
	inMemory(t, func(t *testing.T, here, there *renewer.Keeper) {
		busy, err := there.Acquire(t.Context(), renewer.Request{Name: "b"})
		require.NoError(t, err)
		var ran bool
		both := make(chan error, 1)
		go func() {
			_, err := lockmw.Do(t.Context(), here, lockmw.All("a", "b"),
				func(context.Context) (int, error) { ran = true; return 0, nil })
			both <- err
		}()
		synctest.Wait()
		_, err = here.Acquire(t.Context(), renewer.Request{Name: "a", Try: true})
		require.ErrorIs(t, err, renewer.ErrBusy, "it is kept meanwhile")
		require.NoError(t, <-ranFor(t.Context(), here, time.Second, 0, lockmw.Replace()))
		require.False(t, ran)
		require.NoError(t, busy.Release(t.Context()))
		require.NoError(t, <-both)
		require.True(t, ran)
	})
}
