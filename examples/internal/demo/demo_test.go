package demo_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/examples/internal/demo"
	"github.com/lockbeat/lockbeat/examples/internal/demo/demotest"
	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestVerdict(t *testing.T) {
	t.Parallel()
	text := demotest.Holds(t, demo.Setting{}, func(_ context.Context, d *demo.Demo) error {
		d.Claim("one", true, "%d", 1)
		return nil
	})
	assert.Regexp(
		t, `(?m)^  one +1 +ok\n  locks left behind +0 +ok\n  time +.*s +ok\n\nAll of it held.\n$`,
		text)
	verdict := demotest.Breaks(t, demo.Setting{}, func(_ context.Context, d *demo.Demo) error {
		d.Claim("one", true, "1")
		d.Claim("two", false, "3")
		return errors.New("the end was not reached")
	})
	assert.Equal(t, "the end was not reached; two: 3.\n", verdict)
}

// A story that can't even begin is an error, and no verdict.
func TestNoBeginning(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	held, err := demo.Play(t.Context(), demo.Setting{Redis: "127.0.0.1:1", Out: &out}, nil)
	require.ErrorContains(t, err, "connect to Redis at 127.0.0.1:1")
	assert.False(t, held)
	failed := errors.New("failed")
	held, err = demo.Play(t.Context(), demo.Setting{Out: &out},
		func(context.Context, *demo.Demo) error { return failed })
	require.ErrorIs(t, err, failed)
	assert.False(t, held)
	assert.Empty(t, out.String())
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	demotest.Interrupted(t, func(ctx context.Context, d *demo.Demo) error {
		k, err := d.Keeper("a", nil)
		require.NoError(t, err)
		_, err = lockmw.Do(ctx, k, "x", func(ctx context.Context) (any, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		})
		return err
	})
}

// try asks for a lock without waiting for it.
func try(ctx context.Context, k *renewer.Keeper) error {
	_, err := lockmw.Do(ctx, k, "x", func(context.Context) (any, error) {
		return nil, nil
	}, lockmw.Refuse())
	return err
}

// answer is what try returns once Redis answers in time.
func answer(ctx context.Context, k *renewer.Keeper) error {
	err := try(ctx, k)
	for errors.Is(err, renewer.ErrUnavailable) && ctx.Err() == nil {
		<-time.After(10 * time.Millisecond)
		err = try(ctx, k)
	}
	return err
}

// two are the keepers of two nodes.
func two(t *testing.T, d *demo.Demo) (a, b *renewer.Keeper) {
	t.Helper()
	a, err := d.Keeper("a", nil)
	require.NoError(t, err)
	b, err = d.Keeper("b", nil)
	require.NoError(t, err)
	return a, b
}

// Nodes exclude each other, and hear nothing while Redis is stopped, but for what comes at the end.
func TestNodes(t *testing.T) {
	t.Parallel()
	demotest.Holds(t, demo.Setting{}, func(ctx context.Context, d *demo.Demo) error {
		a, b := two(t, d)
		lease, err := a.Acquire(ctx, "x")
		require.NoError(t, err)
		require.ErrorIs(t, answer(ctx, b), renewer.ErrHeld)
		d.Stop(1)
		require.ErrorIs(t, try(ctx, b), renewer.ErrUnavailable)
		d.Resume()
		_ = lease.Release(ctx) // an error if the connection is not back yet; freed once it is
		require.Eventually(t, func() bool { return try(ctx, b) == nil }, 10*time.Second,
			10*time.Millisecond)
		d.Stop(1)
		d.AtEnd(func(ctx context.Context) error {
			_, err := lockmw.Do(ctx, b, "x", func(context.Context) (any, error) {
				return nil, nil
			}, lockmw.Wait(5*time.Second))
			return err
		})
		return nil
	})
}

// Nodes have locks of their own where that was asked for, and a lock that is still held is found.
func TestLocksLeftBehind(t *testing.T) {
	t.Parallel()
	text, held := demotest.Play(t.Context(), t, demo.Setting{Apart: true},
		func(ctx context.Context, d *demo.Demo) error {
			a, b := two(t, d)
			lease, err := a.Acquire(ctx, "x")
			require.NoError(t, err)
			d.AtEnd(lease.Release) // later than the verdict
			assert.NoError(t, answer(ctx, b))
			return nil
		})
	assert.False(t, held)
	assert.Regexp(t, `(?m)^It did not hold: locks left behind: 1 test-\w+-a:\{x\}\.$`, text)
}

// What can't be ended is an error, also where everything held.
func TestNoEnd(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed")
	ended := false
	held, err := demo.Play(t.Context(), demo.Setting{Program: "test", Out: new(bytes.Buffer)},
		func(_ context.Context, d *demo.Demo) error {
			d.AtEnd(func(context.Context) error { ended = true; return nil })
			d.AtEnd(func(context.Context) error {
				assert.False(t, ended, "the last one first")
				return failed
			})
			return nil
		})
	require.ErrorIs(t, err, failed)
	assert.True(t, held)
	assert.True(t, ended)
}
