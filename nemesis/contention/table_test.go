package contention_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
)

const key = "account:7"

// innerKey is that of a lock that the work takes itself.
const innerKey = "vault:secret"

func nothing(context.Context) error { return nil }

func TestFree(t *testing.T) {
	t.Parallel()
	each(t, func(s *scene) {
		call := s.open(time.Minute, func(ctx context.Context) error {
			assert.True(s.t, lockmw.Held(ctx, key))
			assert.Positive(s.t, lockmw.Fence(ctx))
			return nil
		})
		for range 2 {
			o, words := call(s.t.Context(), key)
			assert.Equal(s.t, done, o, words)
		}
		assert.EqualValues(s.t, 2, s.runs.Load())
	})
}

// An operation that needs several locks takes all of them or none.
func TestSeveralKeys(t *testing.T) {
	t.Parallel()
	each(t, func(s *scene) {
		const both = key + "+account:9"
		call := s.open(0, func(ctx context.Context) error {
			assert.True(s.t, lockmw.Held(ctx, key))
			assert.True(s.t, lockmw.Held(ctx, "account:9"))
			return nil
		})
		release := s.holds("account:9")
		o, words := call(s.t.Context(), both)
		assert.Equal(s.t, busy, o, words)
		s.free(key)
		release()
		o, words = call(s.t.Context(), both)
		assert.Equal(s.t, done, o, words)
		assert.EqualValues(s.t, 1, s.runs.Load())
	})
}

func TestItsOwnFailure(t *testing.T) {
	t.Parallel()
	each(t, func(s *scene) {
		call := s.open(time.Minute, func(context.Context) error {
			return errors.New("insufficient funds")
		})
		o, words := call(s.t.Context(), key)
		assert.Equal(s.t, failed, o, words)
	})
}

// A call inside the operation's lock outlives the operation, which
// answers all the same: the lock stays held until that call has left.
func TestWorkThatOutlivesTheOperation(t *testing.T) {
	t.Parallel()
	each(t, func(s *scene) {
		goOn, over := make(chan struct{}), make(chan error, 1)
		call := s.open(0, func(ctx context.Context) error {
			runs := make(chan struct{})
			go func() {
				_, err := lockmw.Do(context.WithoutCancel(ctx), s.keeper, key,
					func(ctx context.Context) (int, error) {
						close(runs)
						<-goOn
						return 0, context.Cause(ctx)
					}, lockmw.Strict())
				over <- err
			}()
			<-runs
			return nil
		})
		o, words := call(s.t.Context(), key)
		assert.Equal(s.t, done, o, words)
		_, err := s.other.Acquire(s.t.Context(), renewer.Request{Name: key, Try: true})
		require.ErrorIs(s.t, err, renewer.ErrBusy)
		o, words = s.open(0, nothing)(s.t.Context(), key)
		assert.Equal(s.t, busy, o, words)
		close(goOn)
		require.NoError(s.t, <-over)
		s.free(key)
	})
}

// A refusal is for now: a caller that comes again when the lock is free is carried out.
func TestBusyThenFree(t *testing.T) {
	t.Parallel()
	each(t, func(s *scene) {
		release := s.holds(key)
		call := s.open(0, nothing)
		for range 2 {
			begun := time.Now()
			o, words := call(s.t.Context(), key)
			assert.Equal(s.t, busy, o, words)
			assert.Less(s.t, time.Since(begun), atOnce)
		}
		assert.Zero(s.t, s.runs.Load())
		release()
		o, words := call(s.t.Context(), key)
		assert.Equal(s.t, done, o, words)
		assert.EqualValues(s.t, 1, s.runs.Load())
	})
}

func TestWaitThenTaken(t *testing.T) {
	t.Parallel()
	each(t, func(s *scene) {
		release := s.holds(key)
		c := start(s.t.Context(), s.open(time.Minute, nothing), key)
		require.Eventually(s.t, s.aCallerWaits, soon, tick)
		assert.Zero(s.t, s.runs.Load())
		release()
		r := s.await(c)
		assert.Equal(s.t, done, r.outcome, r.words)
		assert.EqualValues(s.t, 1, s.runs.Load())
	})
}

// aCallerWaits reports whether a caller has been refused, and watches for the lock to become free.
// A process that holds locks listens too, for whether they are broken.
func (s *scene) aCallerWaits() bool {
	channels, err := s.redis.Do("PUBSUB", "CHANNELS", redisstore.DefaultPrefix+"*").AsStrSlice()
	require.NoError(s.t, err)
	return slices.ContainsFunc(channels, func(channel string) bool {
		return !strings.HasSuffix(channel, "}:process")
	})
}

func TestWaitRanOut(t *testing.T) {
	t.Parallel()
	each(t, func(s *scene) {
		const wait = 1500 * time.Millisecond // longer than a question takes
		release := s.holds(key)
		begun := time.Now()
		o, words := s.open(wait, nothing)(s.t.Context(), key)
		assert.Equal(s.t, busy, o, words)
		assert.GreaterOrEqual(s.t, time.Since(begun), wait)
		assert.Zero(s.t, s.runs.Load())
		release()
	})
}

// A store that does not answer is never called busy.
func TestStoreDown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		wait time.Duration
		key  string
	}{
		"refuse": {0, key}, "wait": {300 * time.Millisecond, key},
		"a limit": {300 * time.Millisecond, two},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, func(s *scene) {
				call := s.open(c.wait, nothing)
				require.NoError(s.t, s.redis.Stop())
				o, words := call(s.t.Context(), c.key)
				require.NoError(s.t, s.redis.Cont())
				assert.Equal(s.t, unavailable, o, words)
				assert.Zero(s.t, s.runs.Load())
			})
		})
	}
}

func TestLostInTheMiddle(t *testing.T) {
	t.Parallel()
	lock := redisstore.DefaultPrefix + "{" + key + "}"
	for name, c := range map[string]struct {
		key  string
		own  error
		kept []string // by the server
	}{
		"the work says so":                 {key, context.Canceled, []string{lock}},
		"the work has an error of its own": {key, errors.New("insufficient funds"), []string{lock}},
		"a slot":                           {two, context.Canceled, []string{lock + ":slots", lock + ":slots:holders"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, func(s *scene) {
				call := s.open(time.Minute, func(ctx context.Context) error {
					_, err := s.redis.Do(append([]string{"DEL"}, c.kept...)...).AsInt64()
					assert.NoError(s.t, err)
					<-ctx.Done()
					assert.ErrorIs(s.t, context.Cause(ctx), renewer.ErrLost)
					return c.own
				})
				r := s.await(start(s.t.Context(), call, c.key))
				assert.Equal(s.t, lost, r.outcome, r.words)
				assert.EqualValues(s.t, 1, s.runs.Load())
			})
		})
	}
}

// The work takes another lock and returns that one's error. A remote caller is answered as if it
// had been the call's own, and reads neither which lock it was nor who has it. A task has failed:
// it has run, and may have done half of its work.
func TestTheErrorOfALockOfItsOwn(t *testing.T) {
	t.Parallel()
	take := func(ctx context.Context, k *renewer.Keeper, name string, do work) error {
		_, err := lockmw.Do(ctx, k, name, func(ctx context.Context) (any, error) {
			return nil, do(ctx)
		}, lockmw.Refuse())
		return fmt.Errorf("opening the vault: %w", err)
	}
	for name, c := range map[string]struct {
		inner        func(ctx context.Context, s *scene) error
		remote, task outcome
	}{
		"held": {func(ctx context.Context, s *scene) error {
			defer s.holds(innerKey)()
			return take(ctx, s.keeper, innerKey, nothing)
		}, busy, failed},
		"nobody to ask": {func(ctx context.Context, s *scene) error {
			gone := s.newKeeper(nodeMark + "gone")
			assert.NoError(s.t, gone.Shutdown(ctx))
			return take(ctx, gone, innerKey, nothing)
		}, unavailable, failed},
		"lost": {func(ctx context.Context, s *scene) error {
			return take(ctx, s.keeper, innerKey, func(ctx context.Context) error {
				_, err := s.redis.Do("DEL", redisstore.DefaultPrefix+"{"+innerKey+"}").AsInt64()
				assert.NoError(s.t, err)
				<-ctx.Done()
				return context.Cause(ctx)
			})
		}, lost, lost},
		"bad key": {func(ctx context.Context, s *scene) error {
			return take(ctx, s.keeper, strings.Repeat(innerKey, 1000), nothing)
		}, badKey, failed},
		"a name that stores keep for themselves": {func(ctx context.Context, s *scene) error {
			return take(ctx, s.keeper, "\x00lockbeat quorum", nothing)
		}, badKey, failed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, func(s *scene) {
				call := s.open(time.Minute, func(ctx context.Context) error {
					return c.inner(ctx, s)
				})
				want := c.remote
				if s.adapter == "asynq" {
					want = c.task
				}
				r := s.await(start(s.t.Context(), call, key))
				assert.Equal(s.t, want, r.outcome, r.words)
				s.free(key)
			})
		})
	}
}

func TestPanic(t *testing.T) {
	t.Parallel()
	each(t, func(s *scene) {
		panics := true
		call := s.open(time.Minute, func(context.Context) error {
			if panics {
				panic("boom")
			}
			return nil
		})
		o, words := call(s.t.Context(), key)
		assert.Equal(s.t, broken, o, words)
		panics = false
		o, words = call(s.t.Context(), key)
		assert.Equal(s.t, done, o, words)
	})
}

func TestCancelledInLine(t *testing.T) {
	t.Parallel()
	each(t, func(s *scene) {
		release := s.holds(key)
		ctx, cancel := context.WithCancel(s.t.Context())
		c := start(ctx, s.open(time.Minute, nothing), key)
		require.Eventually(s.t, s.aCallerWaits, soon, tick)
		cancel()
		r := s.await(c)
		assert.Equal(s.t, cancelled, r.outcome, r.words)
		require.Eventually(s.t, func() bool {
			return !s.aCallerWaits()
		}, soon, tick, "out of the line, also on the server's side")
		release()
		s.nothingIsLeft()
		assert.Zero(s.t, s.runs.Load())
	})
}

// A caller who leaves in the middle ends the work's context, but the
// lock is held until the work has returned.
func TestCancelledInTheMiddle(t *testing.T) {
	t.Parallel()
	each(t, func(s *scene) {
		began, returns := make(chan struct{}), make(chan struct{})
		call := s.open(time.Minute, func(ctx context.Context) error {
			close(began)
			<-ctx.Done()
			assert.NotErrorIs(s.t, context.Cause(ctx), renewer.ErrLost)
			<-returns
			assert.True(s.t, lockmw.Held(ctx, key))
			return ctx.Err()
		})
		ctx, cancel := context.WithCancel(s.t.Context())
		c := start(ctx, call, key)
		<-began
		cancel()
		if _, err := s.other.Acquire(s.t.Context(), renewer.Request{
			Name: key, Try: true,
		}); assert.Error(s.t, err) {
			assert.ErrorIs(s.t, err, renewer.ErrBusy)
		}
		close(returns)
		r := s.await(c)
		assert.Equal(s.t, cancelled, r.outcome, r.words)
	})
}

func TestBadKey(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]string{
		"empty": "", "10 KB": strings.Repeat("x", 10_000),
		"many": manyKeys(1000), "unknown": "account?", "unknown, one of several": "a+account?",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, func(s *scene) {
				call := s.open(time.Minute, nothing)
				before := s.asked()
				o, words := call(s.t.Context(), bad)
				assert.Equal(s.t, badKey, o, words)
				assert.Equal(s.t, before, s.asked(), "no lock command")
				o, words = call(s.t.Context(), key)
				assert.Equal(s.t, done, o, words)
				assert.Greater(s.t, s.asked(), before)
			})
		})
	}
}

// manyKeys is a key of so many names.
func manyKeys(n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	return strings.Join(names, "+")
}

// asked counts the scripts that the server has run.
func (s *scene) asked() int64 {
	var n int64
	for _, command := range []string{"eval", "evalsha"} {
		calls, err := s.redis.Calls(command)
		require.NoError(s.t, err)
		n += calls
	}
	return n
}
