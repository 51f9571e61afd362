package renewer_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// waiting has a caller wait for "a", which another process has, and returns
// when its wait began, and when it got the name.
func waiting(
	t *testing.T, s *script.Store, k *renewer.Keeper,
) (begun time.Time, got <-chan time.Time) {
	t.Helper()
	s.Overwrite("a", other, time.Hour)
	waitFor(time.Second)
	begun = time.Now()
	at := make(chan time.Time, 1)
	go func() {
		l, err := k.Acquire(context.WithoutCancel(t.Context()), renewer.Request{Name: "a"})
		at <- time.Now()
		if assert.NoError(t, err) {
			assert.NoError(t, l.Release(context.WithoutCancel(t.Context())))
		}
	}()
	synctest.Wait()
	require.Len(t, s.Calls(script.Acquire), 2, "at once, and when the watch was set up")
	return begun, at
}

// instants are when the store was asked, counted from begun, after the first
// two questions.
func instants(s *script.Store, begun time.Time) []time.Duration {
	var all []time.Duration
	for _, c := range s.Calls(script.Acquire)[2:] {
		all = append(all, c.At.Sub(begun))
	}
	return all
}

// wakeEvery wakes those who wait for "a", again and again, for some time.
func wakeEvery(s *script.Store, d, during time.Duration) {
	for range during / d {
		waitFor(d)
		s.Wake("a", nil)
		synctest.Wait()
	}
}

const ms = time.Millisecond

// quietPoll makes the poll, which asks too, stay away.
func quietPoll() renewer.Config {
	cfg := config
	cfg.Poll = time.Hour
	return cfg
}

// Anybody who may publish could have the store asked 11,000 times a second:
// once for each message.
func TestForgedWakeUpsAreThrottled(t *testing.T) {
	t.Parallel()
	inBubble(t, quietPoll(), func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		begun, got := waiting(t, s, k)
		wakeEvery(s, 100*time.Microsecond, 1200*ms)
		assert.Equal(t, []time.Duration{
			0, 1 * ms, 3 * ms, 7 * ms, 15 * ms, 31 * ms, 63 * ms,
			127 * ms, 255 * ms, 505 * ms, 755 * ms, 1005 * ms,
		},
			instants(s, begun.Add(100*time.Microsecond)), "the pause doubles up to 250 ms")

		s.Delete("a")
		s.Wake("a", nil)
		assertInstant(t, begun.Add(1255*ms+100*time.Microsecond), <-got,
			"the release, in the pause, is heard at its end")
	})
}

// A message in the pause is answered once, at its end, and no message is
// answered twice.
func TestAWakeUpInThePauseIsNotLost(t *testing.T) {
	t.Parallel()
	inBubble(t, quietPoll(), func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		begun, got := waiting(t, s, k)
		s.Wake("a", nil)
		synctest.Wait()
		waitFor(500 * time.Microsecond)
		s.Wake("a", nil)
		synctest.Wait()
		s.Wake("a", nil)
		s.Wake("a", nil)
		waitFor(time.Minute)
		assert.Equal(t, []time.Duration{0, 1 * ms}, instants(s, begun))
		s.Delete("a")
		freed := time.Now()
		s.Wake("a", nil)
		assertInstant(t, freed, <-got, "out of the pause a wake-up is heard at once")
	})
}

// What was heard in the pause of a caller who has left is not lost on the next.
func TestThePauseOutlivesItsCaller(t *testing.T) {
	t.Parallel()
	inBubble(t, quietPoll(), func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Overwrite("a", other, time.Hour)
		waitFor(time.Second)
		begun := time.Now()
		ctx, leave := context.WithCancel(t.Context())
		left := waits(ctx, k)
		next := waits(t.Context(), k)
		wakeEvery(s, 100*time.Microsecond, 200*ms)
		leave()
		require.ErrorIs(t, <-left, context.Canceled)
		synctest.Wait()
		before := len(s.Calls(script.Acquire))
		wakeEvery(s, 100*time.Microsecond, 50*ms)
		assert.Len(t, s.Calls(script.Acquire), before, "the pause after 127 ms lasts until 255 ms")
		s.Delete("a")
		s.Wake("a", nil)
		require.NoError(t, <-next)
		assertInstant(t, begun.Add(255*ms+100*time.Microsecond), time.Now(), "got")
	})
}

// A release that another caller was quicker to use is none to be punished for.
func TestAHonestWakeUpEndsThePause(t *testing.T) {
	t.Parallel()
	inBubble(t, quietPoll(), func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		begun, got := waiting(t, s, k)
		wakeEvery(s, 100*time.Microsecond, 600*ms)
		asked := len(s.Calls(script.Acquire))
		waitFor(100 * ms)
		s.Overwrite("a", store.Holder{Node: "quick"}, time.Hour) // freed, and taken by another
		waitFor(ms)
		s.Wake("a", nil)
		waitFor(time.Until(begun.Add(755*ms + 100*time.Microsecond)))
		synctest.Wait()
		assert.Len(t, s.Calls(script.Acquire), asked+1, "still at the end of the pause")
		for range 20 {
			waitFor(10 * ms)
			s.Overwrite("a", store.Holder{Node: "quick"}, time.Hour)
			waitFor(ms)
			asked = len(s.Calls(script.Acquire))
			s.Wake("a", nil)
			synctest.Wait()
			require.Len(t, s.Calls(script.Acquire), asked+1, "at once")
		}
		s.Delete("a")
		freed := time.Now()
		s.Wake("a", nil)
		assertInstant(t, freed, <-got, "got")
	})
}

// The pause holds up neither the end of the TTL nor the caller's own end.
func TestThePauseHoldsUpNothingElse(t *testing.T) {
	t.Parallel()
	inBubble(t, quietPoll(), func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		_, got := waiting(t, s, k)
		wakeEvery(s, 100*time.Microsecond, 600*ms)
		s.Overwrite("a", other, 300*ms)
		until := time.Now().Add(300 * ms)
		wakeEvery(s, 100*time.Microsecond, 290*ms) // it hears of the new TTL by them
		assertInstant(t, until.Add(ms), <-got, "got")
		synctest.Wait() // it is released

		s.Overwrite("a", other, time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), 623*ms)
		defer cancel()
		begun := time.Now()
		left := waits(ctx, k)
		wakeEvery(s, 100*time.Microsecond, 600*ms)
		require.ErrorIs(t, <-left, context.DeadlineExceeded)
		assertInstant(t, begun.Add(623*ms), time.Now(), "return")
	})
}
