package once_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// doneRecord is that of work done elsewhere, and diedRecord of an attempt that died.
const (
	doneRecord = "once1 done 1 4711\nthere\n\n{\"Pages\":7}"
	diedRecord = "once1 begun 1 4711\nthere\n\n"
)

// questions counts what a store is asked from now on: that and nothing else.
func questions(s *script.Store) (since func() map[script.Op]int) {
	count := func() map[script.Op]int {
		n := make(map[script.Op]int)
		for _, op := range []script.Op{
			script.Acquire, script.Prepare, script.Read, script.Write, script.Release,
		} {
			n[op] = len(s.Calls(op))
		}
		return n
	}
	before := count()
	return func() map[script.Op]int {
		n := make(map[script.Op]int)
		for op, calls := range count() {
			if calls > before[op] {
				n[op] = calls - before[op]
			}
		}
		return n
	}
}

// New work takes three questions, and work that is done one. What an attempt that died has left
// takes one more.
func TestQuestions(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		asked := questions(s)
		_, err := once.Do(t.Context(), k, "a", func(ctx context.Context) (report, error) {
			require.Equal(t, 1, once.Current(ctx).Number)
			require.Contains(t, s.RecordOf("a"), "once1 begun 1 ")
			require.Equal(t, map[script.Op]int{script.Acquire: 1}, asked())
			return report{Pages: 5}, nil
		})
		require.NoError(t, err)
		require.Equal(t, map[script.Op]int{
			script.Acquire: 1, script.Write: 1, script.Release: 1,
		}, asked())

		asked = questions(s)
		got, err := once.Do(t.Context(), k, "a", never(t))
		require.NoError(t, err)
		require.Equal(t, report{Pages: 5}, got)
		require.Equal(t, map[script.Op]int{script.Acquire: 1}, asked())

		s.PutRecord("b", diedRecord)
		free(t, k, "b") // so that the next token is above the outsider's
		asked = questions(s)
		_, err = once.Do(t.Context(), k, "b", func(ctx context.Context) (report, error) {
			require.Equal(t, 2, once.Current(ctx).Number)
			require.Contains(t, s.RecordOf("b"), "once1 begun 2 ")
			return report{}, nil
		})
		require.NoError(t, err)
		require.Equal(t, map[script.Op]int{
			script.Acquire: 2, script.Write: 1, script.Release: 1,
		}, asked())
	})
}

// With a recorder of its own, new work takes one question before the lock, one under it and one at
// its end; work that is done takes one.
func TestQuestionsToARecorder(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		for _, want := range []map[script.Op]int{
			{
				script.Acquire: 1, script.Read: 1, script.Prepare: 1, script.Write: 1,
				script.Release: 1,
			}, {script.Read: 1},
		} {
			asked := questions(s)
			_, err := once.Do(t.Context(), k, "a", answer(report{Pages: 5}),
				once.RecordIn(elsewhere{k, false}))
			require.NoError(t, err)
			require.Equal(t, want, asked())
		}
	})
}

// A caller that waited learns of the result by its acquire, and is never given the lock.
func TestQuestionsOfAWaiter(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		other := keeper(t, s, "there")
		asked := questions(s)
		done := make(chan error, 1)
		_, err := once.Do(t.Context(), k, "a", func(context.Context) (report, error) {
			go func() {
				got, err := once.Do(t.Context(), other, "a", never(t))
				assert.Equal(t, report{Pages: 5}, got)
				done <- err
			}()
			elapse(time.Millisecond)
			return report{Pages: 5}, nil
		})
		require.NoError(t, err)
		require.NoError(t, <-done)
		require.Equal(t, map[script.Op]int{
			// The waiter: that an attempt has begun, that the lock is taken, once more when its
			// watch has begun, and the result.
			script.Acquire: 1 + 4, script.Write: 1, script.Release: 1,
		}, asked())
	})
}

// Calls of one process for work that is done share an answer.
func TestQuestionsOfManyAtOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.PutRecord("a", doneRecord)
		s.Script(script.Acquire, script.Pass().Slow(time.Millisecond))
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				got, err := once.Do(t.Context(), k, "a", never(t))
				assert.NoError(t, err)
				assert.Equal(t, report{Pages: 7}, got)
			})
		}
		wg.Wait()
		require.Len(t, s.Calls(script.Acquire), 1)
	})
}

// A lease that is handed over within the process shows no record: it is asked for.
func TestPrepareAfterAHandOff(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Acquire(t.Context(), []renewer.Claim{{Name: "a", Owner: owner(1), TTL: time.Second}})
		var wg sync.WaitGroup
		for _, failure := range []error{errDown, nil} {
			wg.Go(func() {
				_, err := once.Do(t.Context(), k, "a", func(ctx context.Context) (report, error) {
					assert.Equal(t, failure == nil, once.Current(ctx).Number == 2)
					elapse(time.Millisecond) // by when the next token is past
					return report{Pages: 5}, failure
				}, once.NoRetry())
				assert.ErrorIs(t, err, failure)
			})
			synctest.Wait()
		}
		wg.Wait()
		require.Len(t, s.Calls(script.Prepare), 1)
	})
}

// Another caller may have the lock, and the wait be short: the result of work that is done is to be
// had.
func TestResultThoughTheLockIsTaken(t *testing.T) {
	t.Parallel()
	for name, place := range map[string]struct{ here, waited bool }{
		"by another process": {}, "by this one": {here: true},
		"by this one, and others wait": {here: true, waited: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				holder := keeper(t, s, "there")
				if place.here {
					holder = k
				}
				l, err := holder.Acquire(t.Context(), "a")
				require.NoError(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if place.waited {
					go func() { _, _ = k.Acquire(ctx, "a") }()
					synctest.Wait()
				}
				for _, wait := range []time.Duration{0, time.Second} {
					_, err := once.Do(t.Context(), k, "a", never(t), once.Wait(wait))
					require.ErrorIs(t, err, renewer.ErrHeld)
					s.PutRecord("a", doneRecord)
					got, err := once.Do(t.Context(), k, "a", never(t), once.Wait(wait),
						once.MaxWaiters(1))
					require.NoError(t, err)
					require.Equal(t, report{Pages: 7}, got)
					s.PutRecord("a", diedRecord)
				}
				cancel()
				synctest.Wait()
				require.NoError(t, l.Release(t.Context()))
			})
		})
	}
}
