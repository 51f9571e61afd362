package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
)

// Calls of many processes that replace each other: one runs at a time, the last has the lock in the
// end, and no key is left.
func TestReplace(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	keepers := s.keepers(t, 4)
	const calls = 40
	type result struct {
		number int
		err    error
	}
	results := make(chan result, calls)
	running := make(chan struct{}, 1) // at most one
	const lease, note = "lockbeat:{a}", "lockbeat:{a}:newest"
	for number := range calls {
		before, _ := s.do(t, "GET", note).ToString() // of a call that waits
		answered := make(chan struct{})
		go func() {
			err := func() error {
				l, err := keepers[number%len(keepers)].Acquire(t.Context(), renewer.Request{
					Name: "a", Newest: renewer.NewestReplaces,
				})
				close(answered)
				if err != nil {
					return err
				}
				select {
				case running <- struct{}{}:
				default:
					t.Error("two run")
				}
				if number < calls-1 {
					<-l.Context().Done()
				}
				<-running
				return l.Release(context.WithoutCancel(t.Context()))
			}()
			results <- result{number, err}
		}()
		require.Eventually(t, func() bool {
			select {
			case <-answered:
				return true
			default:
				now, _ := s.do(t, "GET", note).ToString()
				return now != before
			}
		}, patience, time.Millisecond, "it is the newest before the next one comes")
	}
	begun := time.Now()
	for range calls {
		r := <-results
		if r.number == calls-1 {
			assert.NoError(t, r.err, "the newest wins")
			continue
		}
		assert.ErrorIs(t, r.err, renewer.ErrReplaced, "call %d", r.number)
	}
	assert.Less(t, time.Since(begun), 3*time.Second, "each is told, and has not found out by a poll")
	assert.Zero(t, s.number(t, "EXISTS", lease))
	s.pttl(t, note, 1, minute)
}
