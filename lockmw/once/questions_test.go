package once_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// doneRecord is that of work done elsewhere, and diedRecord of an attempt that
// died.
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

// New work takes four questions and the release, and work that is done one. A
// takeover costs no more than new work.
func TestQuestions(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.PutRecord("died", diedRecord)
		free(t, k, "died") // so that the next token is above the outsider's
		for number, name := range []string{"new", "died"} {
			asked := questions(s)
			_, err := once.Do(t.Context(), k, name, func(ctx context.Context) (report, error) {
				require.Equal(t, number+1, once.Current(ctx).Number)
				require.Contains(t, s.RecordOf(name), fmt.Sprintf("once1 begun %d ", number+1))
				require.Equal(t, map[script.Op]int{
					script.Read: 1, script.Acquire: 1, script.Prepare: 1,
				}, asked())
				return report{Pages: 5}, nil
			})
			require.NoError(t, err)
			require.Equal(t, map[script.Op]int{
				script.Read: 1, script.Acquire: 1, script.Prepare: 1, script.Write: 1,
				script.Release: 1,
			}, asked())

			asked = questions(s)
			got, err := once.Do(t.Context(), k, name, never(t))
			require.NoError(t, err)
			require.Equal(t, report{Pages: 5}, got)
			require.Equal(t, map[script.Op]int{script.Read: 1}, asked())
		}
	})
}

// A caller that waited for another one's attempt finds the result under the
// lock.
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
			// The waiter's: that the lock is taken, once more when its watch
			// has begun, and granted.
			script.Acquire: 1 + 3,
			script.Read:    2, script.Prepare: 2, script.Write: 1, script.Release: 2,
		}, asked())
	})
}

// Another caller may have the lock, and the wait be short: the result of work
// that is done is to be had.
func TestResultThoughTheLockIsTaken(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		l, err := k.Acquire(t.Context(), renewer.Request{Name: "a"})
		require.NoError(t, err)
		for _, wait := range []time.Duration{0, time.Second} {
			_, err := once.Do(t.Context(), k, "a", never(t), waiting(wait))
			require.ErrorIs(t, err, renewer.ErrBusy)
			s.PutRecord("a", doneRecord)
			got, err := once.Do(t.Context(), k, "a", never(t), waiting(wait))
			require.NoError(t, err)
			require.Equal(t, report{Pages: 7}, got)
			s.PutRecord("a", diedRecord)
		}
		require.NoError(t, l.Release(t.Context()))
	})
}
