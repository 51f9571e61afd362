package lockmw_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/adapter"
	"github.com/lockbeat/lockbeat/lockmw/internal/unwind"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// What panics or exits leaves the lock to everybody: it is not handed
// to the next in a process that may be in disorder.
func TestAfterAPanicTheStoreIsAsked(t *testing.T) {
	t.Parallel()
	boom := func(context.Context) (int, error) { panic("boom") }
	exit := func(context.Context) (int, error) { runtime.Goexit(); return 0, nil }
	for name, tt := range map[string]struct {
		fn  func(context.Context) (int, error)
		run func(ctx context.Context, k *renewer.Keeper,
			fn func(context.Context) (int, error)) error
		handed bool
	}{
		"Do returns":           {fn: answer, run: do("a"), handed: true},
		"Do panics":            {fn: boom, run: do("a")},
		"Do exits":             {fn: exit, run: do("a")},
		"Run returns":          {fn: answer, run: inRun, handed: true},
		"Run's panics":         {fn: boom, run: inRun},
		"Run's exits":          {fn: exit, run: inRun},
		"an inner returns":     {fn: answer, run: inInner, handed: true},
		"an inner panics":      {fn: boom, run: inInner},
		"Keys return":          {fn: answer, run: do(lockmw.All("a", "b")), handed: true},
		"Keys panic":           {fn: boom, run: do(lockmw.All("a", "b"))},
		"RunWhileHeld returns": {fn: answer, run: asLeader, handed: true},
		"RunWhileHeld panics":  {fn: boom, run: asLeader},
		"an adapter's returns": {fn: answer, run: enter(nil), handed: true},
		"an adapter's unwinds": {fn: answer, run: enter(unwind.Err)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				before, err := k.Acquire(t.Context(), renewer.Request{Name: "a"})
				require.NoError(t, err)
				begun, end, over := make(chan struct{}), make(chan struct{}), make(chan struct{})
				go func() {
					defer close(over)
					defer func() { _ = recover() }()
					_ = tt.run(t.Context(), k, func(ctx context.Context) (int, error) {
						close(begun)
						<-end
						return tt.fn(ctx)
					})
				}()
				synctest.Wait()
				next := make(chan error)
				go func() {
					_, err := lockmw.Do(t.Context(), k, "a", answer)
					next <- err
				}()
				synctest.Wait()
				require.NoError(t, before.Release(t.Context()))
				<-begun
				elapse(time.Millisecond) // the store's clock must reach the next token
				asked := s.Calls(script.Acquire)
				close(end)
				require.NoError(t, <-next)
				<-over
				require.Equal(t, tt.handed, len(s.Calls(script.Acquire)) == len(asked))
			})
		})
	}
}

func do[N lockmw.Name](
	name N,
) func(context.Context, *renewer.Keeper, func(context.Context) (int, error)) error {
	return func(ctx context.Context, k *renewer.Keeper,
		fn func(context.Context) (int, error),
	) error {
		_, err := lockmw.Do(ctx, k, name, fn)
		return err
	}
}

func inRun(ctx context.Context, k *renewer.Keeper, fn func(context.Context) (int, error)) error {
	err := lockmw.Run(ctx, k, "a", func(ctx context.Context) error {
		_, err := fn(ctx)
		return err
	})
	return err
}

func asLeader(ctx context.Context, k *renewer.Keeper, fn func(context.Context) (int, error)) error {
	return lockmw.Lead(ctx, k, "a", func(ctx context.Context) error {
		_, err := fn(ctx)
		return err
	})
}

func enter(
	outcome error,
) func(context.Context, *renewer.Keeper, func(context.Context) (int, error)) error {
	return func(ctx context.Context, k *renewer.Keeper,
		fn func(context.Context) (int, error),
	) error {
		ctx, exit, err := adapter.Enter(ctx, k, "a")
		if err != nil {
			return err
		}
		_, _ = fn(ctx)
		return exit(outcome)
	}
}

// inInner runs fn in an inner call, whose panic the outer one recovers.
func inInner(ctx context.Context, k *renewer.Keeper, fn func(context.Context) (int, error)) error {
	_, err := lockmw.Do(ctx, k, "a", func(ctx context.Context) (int, error) {
		defer func() { _ = recover() }()
		return lockmw.Do(ctx, k, "a", fn)
	})
	return err
}
