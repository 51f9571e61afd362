package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

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
	for number := range calls {
		go func() {
			err := func() error {
				l, err := keepers[number%len(keepers)].Acquire(t.Context(), "a", renewer.Replace())
				if err != nil {
					return err
				}
				select {
				case running <- struct{}{}:
				default:
					t.Error("two run")
				}
				select {
				case <-l.Context().Done():
				case <-time.After(300 * time.Millisecond):
				}
				<-running
				return l.Release(context.WithoutCancel(t.Context()))
			}()
			results <- result{number, err}
		}()
		<-time.After(5 * time.Millisecond)
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
	assert.Less(t, time.Since(begun), time.Second, "each is told at once")
	assert.Zero(t, s.number(t, "EXISTS", "lockbeat:{a}"))
	s.pttl(t, "lockbeat:{a}:newest", 1, minute)
}
