package repeat_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/internal/repeat"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// A caller that sent requests and left, over and over, had more and more
// handlers running, for which it kept no connection.
func TestRequestsOfACallerThatLeavesAreBounded(t *testing.T) {
	t.Parallel()
	inBubble(t, repeat.Defaults(100), func(t *testing.T, g *repeat.Guard, s *script.Store) {
		_, _, err := do(t.Context(), g, "known", answering(new(int), final("stored")))
		require.NoError(t, err)
		finish := make(chan struct{})
		var all sync.WaitGroup
		var running, refused atomic.Int64
		for i := range 200 {
			all.Go(func() {
				ctx, leave := context.WithTimeout(t.Context(), time.Second)
				defer leave()
				_, _, err := do(ctx, g, strconv.Itoa(i), func(context.Context) repeat.Answer {
					running.Add(1)
					<-finish
					return final("done")
				})
				if errors.Is(err, repeat.ErrTooMany) {
					refused.Add(1)
				}
			})
		}
		<-time.After(2 * time.Second)
		assert.EqualValues(t, repeat.DefaultMaxRunning, running.Load())
		assert.EqualValues(t, 200-repeat.DefaultMaxRunning, refused.Load(), "at once")
		records := 0
		for _, call := range s.Calls(script.Acquire) {
			if s.RecordOf(call.Claims[0].Name) != "" {
				records++
			}
		}
		assert.Equal(t, 1+repeat.DefaultMaxRunning, records, "a refused request leaves nothing")

		_, stored, err := do(t.Context(), g, "known", answering(new(int), final("new")))
		require.NoError(t, err)
		assert.Equal(t, "stored", stored, "known keys are replayed")
		runs := 0
		_, err = g.Do(t.Context(), g.Request("bob", "k", "pen"), repeat.Work{
			Run: answering(&runs, final("done")),
		})
		require.NoError(t, err)
		assert.Equal(t, 1, runs, "another caller has its own")

		close(finish)
		all.Wait()
		_, _, err = do(t.Context(), g, "next", answering(&runs, final("done")))
		require.NoError(t, err)
		assert.Equal(t, 2, runs, "there is room again")
	})
}

// Whatever a handler does, and whether or not it runs, the caller has its place
// back.
func TestNoRequestKeepsAPlace(t *testing.T) {
	t.Parallel()
	set := repeat.Defaults(1)
	set.MaxRunning, set.MaxStored = 1, 2000
	inBubble(t, set, func(t *testing.T, g *repeat.Guard, _ *script.Store) {
		assert.PanicsWithValue(t, "boom", func() {
			_, _, _ = do(t.Context(), g, "k", func(context.Context) repeat.Answer { panic("boom") })
		})
		_, _, err := do(t.Context(), g, "k", answering(new(int), repeat.Answer{None: true}))
		require.ErrorIs(t, err, repeat.ErrUnanswered)
		for i := range 5 { // until MaxStored is used up
			_, _, err = do(t.Context(), g, strconv.Itoa(i), answering(new(int), final("done")))
		}
		require.ErrorIs(t, err, repeat.ErrQuota)
		<-time.After(set.KeepAnswer)
		_, _, err = do(t.Context(), g, "next", answering(new(int), final("done")))
		require.NoError(t, err)
		synctest.Wait()
	})
}
