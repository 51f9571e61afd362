package repeat_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/internal/repeat"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// scripted returns a keeper on a store that does as told, until the test ends.
func scripted(t *testing.T) (*renewer.Keeper, *script.Store) {
	t.Helper()
	s := script.New()
	k, err := renewer.New(s, renewer.Config{TTL: renewer.DefaultTTL})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, k.Shutdown(context.WithoutCancel(t.Context()))) })
	return k, s
}

// inBubble runs a test with a guard, in virtual time.
func inBubble(
	t *testing.T, set repeat.Settings,
	test func(t *testing.T, g *repeat.Guard, s *script.Store),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		k, s := scripted(t)
		g, err := repeat.New(k, set)
		require.NoError(t, err)
		test(t, g, s)
	})
}

// do has a request carried out by run, and returns the answer that counts if it
// is a stored one.
func do(
	ctx context.Context, g *repeat.Guard, key string, run func(context.Context) repeat.Answer,
) (outcome repeat.Outcome, stored string, err error) {
	outcome, err = g.Do(ctx, g.Request("ann", key, "pen"), repeat.Work{
		Run:  run,
		Read: func(data []byte) error { stored = string(data); return nil },
	})
	return outcome, stored, err
}

// answering returns a handler with one answer, and counts its runs.
func answering(runs *int, a repeat.Answer) func(context.Context) repeat.Answer {
	return func(context.Context) repeat.Answer { *runs++; return a }
}

func final(data string) repeat.Answer { return repeat.Answer{Final: true, Data: []byte(data)} }

func TestOneOfManyIsCarriedOut(t *testing.T) {
	t.Parallel()
	set := repeat.Defaults(100)
	set.WaitForAnswer = time.Hour
	inBubble(t, set, func(t *testing.T, g *repeat.Guard, _ *script.Store) {
		var all sync.WaitGroup
		var mu sync.Mutex
		runs, outcomes := 0, map[repeat.Outcome]int{}
		for range 20 {
			all.Go(func() {
				outcome, stored, err := do(t.Context(), g, "k", func(context.Context) repeat.Answer {
					<-time.After(time.Minute)
					runs++
					return final("done")
				})
				assert.NoError(t, err)
				mu.Lock()
				defer mu.Unlock()
				outcomes[outcome]++
				if outcome == repeat.OutcomeStored {
					assert.Equal(t, "done", stored)
				}
			})
		}
		all.Wait()
		assert.Equal(t, 1, runs)
		assert.Equal(t, map[repeat.Outcome]int{repeat.OutcomeOwn: 1, repeat.OutcomeStored: 19},
			outcomes)
	})
}

// Only what is final is known to the next request, and counts for the caller's
// quota.
func TestWhatEachAnswerLeaves(t *testing.T) {
	t.Parallel()
	long := final(string(make([]byte, 1<<17)))
	for name, c := range map[string]struct {
		answer repeat.Answer
		quota  int64
		want   repeat.Outcome
		stored bool
		full   bool // the quota
	}{
		"not final":         {repeat.Answer{}, 1, repeat.OutcomeOwn, false, false},
		"no answer":         {repeat.Answer{None: true}, 1, repeat.OutcomeRefused, false, false},
		"final":             {final("done"), 1, repeat.OutcomeOwn, true, true},
		"too large":         {repeat.Answer{Final: true}, 1, repeat.OutcomeOwn, true, true},
		"encoded too large": {long, 1, repeat.OutcomeOwn, true, true},
		"of which no more than its keys is stored": {long, 2000, repeat.OutcomeOwn, true, false},
	} {
		set := repeat.Defaults(1)
		set.MaxStored = c.quota
		inBubble(t, set, func(t *testing.T, g *repeat.Guard, s *script.Store) {
			runs := 0
			outcome, _, err := do(t.Context(), g, "k", answering(&runs, c.answer))
			assert.Equal(t, c.want, outcome, name)
			assert.Equal(t, c.answer.None, errors.Is(err, repeat.ErrUnanswered), name)
			record := s.RecordOf(s.Calls(script.Acquire)[0].Claims[0].Name)
			assert.Equal(t, c.stored, record != "", "%s: %q", name, record)

			outcome, _, err = do(t.Context(), g, "another", answering(&runs, final("")))
			if !c.full {
				assert.NoError(t, err, name)
				assert.Equal(t, 2, runs, name)
				return
			}
			assert.Equal(t, repeat.OutcomeRefused, outcome, name)
			assert.ErrorIs(t, err, repeat.ErrQuota, name)
			assert.Equal(t, 1, runs, name)
		})
	}
}

// A request that ends before its handler has begun is not carried out; why it
// has ended is told.
func TestARequestThatEndsWhileItWaits(t *testing.T) {
	t.Parallel()
	set := repeat.Defaults(100)
	set.WaitForAnswer = time.Hour
	errLeft := errors.New("left")
	inBubble(t, set, func(t *testing.T, g *repeat.Guard, _ *script.Store) {
		first := make(chan struct{})
		go func() {
			defer close(first)
			_, _, err := do(t.Context(), g, "k", func(context.Context) repeat.Answer {
				<-time.After(time.Minute)
				return final("done")
			})
			assert.NoError(t, err)
		}()
		synctest.Wait()
		ctx, leave := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { leave(errLeft) })
		runs, begun := 0, time.Now()
		outcome, _, err := do(ctx, g, "k", answering(&runs, final("done")))
		assert.Equal(t, repeat.OutcomeRefused, outcome)
		assert.ErrorIs(t, err, context.Canceled)
		assert.ErrorIs(t, err, errLeft)
		assert.Equal(t, time.Second, time.Since(begun))
		<-first
		assert.Zero(t, runs)
	})
}

// A client that gives up and sends its request again must find it done, and not
// cut off half-way. A handler that does not come to an end has one set, which
// begins when the client has gone.
func TestTheHandlerOutlivesItsRequest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		given repeat.Given
		after time.Duration
	}{
		{repeat.Given{}, time.Minute},
		{repeat.Given{FinishWithin: time.Hour}, time.Hour},
		{repeat.Given{EndWithClient: true}, 0},
	} {
		set, err := c.given.Settings("Config", 1)
		require.NoError(t, err)
		inBubble(t, set, func(t *testing.T, g *repeat.Guard, _ *script.Store) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
			defer cancel()
			outcome, _, err := do(ctx, g, "k", func(ctx context.Context) repeat.Answer {
				begun := time.Now()
				_, bounded := ctx.Deadline()
				assert.False(t, bounded)
				<-ctx.Done()
				assert.Equal(t, 2*time.Hour+c.after, time.Since(begun))
				assert.ErrorIs(t, ctx.Err(), context.Canceled)
				assert.ErrorContains(t, context.Cause(ctx), "FinishWithin")
				return repeat.Answer{None: true}
			})
			assert.Equal(t, repeat.OutcomeRefused, outcome)
			assert.ErrorIs(t, err, repeat.ErrUnanswered)
			outcome, _, err = do(t.Context(), g, "k", answering(new(int), final("done")))
			assert.NoError(t, err)
			assert.Equal(t, repeat.OutcomeOwn, outcome)
		})
	}
}

func TestMaxHoldOfARequest(t *testing.T) {
	t.Parallel()
	set := repeat.Defaults(1)
	set.MaxHold = 5 * time.Minute
	inBubble(t, set, func(t *testing.T, g *repeat.Guard, _ *script.Store) {
		begun := time.Now()
		_, _, _ = do(t.Context(), g, "k", func(ctx context.Context) repeat.Answer {
			<-ctx.Done()
			var lost *renewer.LostError
			assert.ErrorAs(t, context.Cause(ctx), &lost)
			assert.Equal(t, renewer.ReasonMaxHold, lost.Reason)
			return repeat.Answer{None: true}
		})
		assert.Equal(t, 5*time.Minute, time.Since(begun))
	})
}

func TestSettingsThatCantBeMeant(t *testing.T) {
	t.Parallel()
	k, _ := scripted(t)
	set := repeat.Defaults(1)
	set.KeepAnswer = renewer.DefaultTTL - 1
	_, err := repeat.New(k, set)
	require.ErrorIs(t, err, renewer.ErrConfig)
}
