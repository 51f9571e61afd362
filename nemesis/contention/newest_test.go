package contention_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
)

// wasReplaced requires that a call gave way to a newer one. A task is done then: that one has its
// place.
func (s *scene) wasReplaced(c <-chan result) {
	s.t.Helper()
	want := replaced
	if s.adapter == "asynq" {
		want = done
	}
	r := s.await(c)
	assert.Equal(s.t, want, r.outcome, r.words)
}

// waitsAsNewest waits until a call waits as the newest.
func (s *scene) waitsAsNewest() {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		n, err := s.redis.Do("EXISTS", redisstore.DefaultPrefix+"{"+key+"}:newest").AsInt64()
		return err == nil && n == 1
	}, soon, tick)
}

// The work's context ends, the newest call is carried out once the work has returned, and the one
// between them is not.
func TestReplaced(t *testing.T) {
	t.Parallel()
	each(t, func(s *scene) {
		told, goOn := make(chan struct{}), make(chan struct{})
		call := s.open(newestWins, func(ctx context.Context) error {
			if s.runs.Load() > 1 {
				return nil
			}
			<-ctx.Done()
			assert.ErrorIs(s.t, context.Cause(ctx), renewer.ErrReplaced)
			close(told)
			<-goOn
			return ctx.Err()
		})
		first := start(s.t.Context(), call, key)
		require.Eventually(s.t, func() bool { return s.runs.Load() == 1 }, soon, tick)
		second := start(s.t.Context(), call, key)
		<-told
		s.waitsAsNewest()
		third := start(s.t.Context(), call, key)
		s.wasReplaced(second)
		assert.EqualValues(s.t, 1, s.runs.Load(), "the work has not returned")
		close(goOn)
		s.wasReplaced(first)
		r := s.await(third)
		assert.Equal(s.t, done, r.outcome, r.words)
		assert.EqualValues(s.t, 2, s.runs.Load())
	})
}

// Another process's operation gives way, and the work gives way to another process's.
func TestReplacedByAnotherProcess(t *testing.T) {
	t.Parallel()
	each(t, func(s *scene) {
		before, err := s.other.Acquire(s.t.Context(), renewer.Request{
			Name: key, Newest: renewer.NewestReplaces,
		})
		require.NoError(s.t, err)
		call := start(s.t.Context(), s.open(newestWins, func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}), key)
		select {
		case <-before.Context().Done():
		case <-time.After(soon):
			require.Fail(s.t, "it is not told")
		}
		assert.ErrorIs(s.t, before.Err(), renewer.ErrReplaced)
		assert.Zero(s.t, s.runs.Load())
		require.ErrorIs(s.t, before.Release(s.t.Context()), renewer.ErrReplaced)
		require.Eventually(s.t, func() bool { return s.runs.Load() == 1 }, soon, tick)
		after, err := s.other.Acquire(s.t.Context(), renewer.Request{
			Name: key, Newest: renewer.NewestReplaces, MaxWait: soon,
		})
		require.NoError(s.t, err)
		s.wasReplaced(call)
		assert.Greater(s.t, after.Fence(), before.Fence())
		require.NoError(s.t, after.Release(s.t.Context()))
	})
}

// The work is done, and then what the newest call is for.
func TestTheNewestWaits(t *testing.T) {
	t.Parallel()
	each(t, func(s *scene) {
		goOn := make(chan struct{})
		call := s.open(newestWaits, func(ctx context.Context) error {
			<-goOn
			assert.NoError(s.t, ctx.Err())
			return nil
		})
		first := start(s.t.Context(), call, key)
		require.Eventually(s.t, func() bool { return s.runs.Load() == 1 }, soon, tick)
		second := start(s.t.Context(), call, key)
		s.waitsAsNewest()
		third := start(s.t.Context(), call, key)
		s.wasReplaced(second)
		close(goOn)
		for _, c := range []<-chan result{first, third} {
			r := s.await(c)
			assert.Equal(s.t, done, r.outcome, r.words)
		}
		assert.EqualValues(s.t, 2, s.runs.Load())
	})
}
