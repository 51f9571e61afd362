package renewer_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// taken waits for a lock that somebody else has and tells when it was got.
func taken(t *testing.T, k *renewer.Keeper, more ...renewer.Request) time.Time {
	t.Helper()
	l := acquire(t, k, "a", more...)
	at := time.Now()
	require.NoError(t, l.Release(t.Context()))
	return at
}

func TestAWakeUpEndsTheWait(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Script(script.Acquire, script.Taken(other, time.Minute), script.Taken(other, time.Minute),
			script.Held())
		freed := time.Now().Add(1234 * time.Millisecond)
		time.AfterFunc(time.Until(freed), func() { s.Wake("a", nil) })
		assertInstant(t, freed, taken(t, k), "acquired")
		require.Len(t, s.Calls(script.Acquire), 3, "at once, when the watch was set up, when woken")
		synctest.Wait()
		require.Zero(t, s.Watchers("a"), "nobody watches any more")
	})
}

// The key may be freed between the first question and the watch: the
// store wakes once it watches, and that is enough.
func TestNoWakeUpIsMissedBeforeTheWatch(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Script(script.Acquire, script.Taken(other, time.Hour), script.Held())
		begun := time.Now()
		assertInstant(t, begun, taken(t, k), "acquired")
	})
}

func TestWithoutWakeUpsTheTTLEndsTheWait(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Mute(true)
		s.Script(script.Acquire, script.Taken(other, 3*time.Second))
		begun := time.Now()
		assertInstant(t, begun.Add(3*time.Second+time.Millisecond), taken(t, k), "acquired")
	})
}

func TestWithoutAnyHintASlowPollEndsTheWait(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Mute(true)
		s.Script(script.Acquire, script.Taken(store.Holder{}, 0))
		begun := time.Now()
		assert.InDelta(t, config.Poll, taken(t, k).Sub(begun), float64(config.Poll/5),
			"a poll, give or take a fifth")
	})
}

func TestWaitingNeitherSpinsNorSleepsIn(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Mute(true)
		// held for no time, over and over
		s.Default(script.Acquire, script.Taken(other, time.Nanosecond))
		_, err := k.Acquire(t.Context(), renewer.Request{Name: "a", MaxWait: time.Second})
		require.ErrorIs(t, err, renewer.ErrBusy)
		assert.InDelta(t, 500, len(s.Calls(script.Acquire)), 20, "one question in 2 ms")
	})
}

func TestTheStoreMayBeDownMeanwhile(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Default(script.Acquire, script.Fail(errDown))
		back := time.Now().Add(2 * time.Second)
		time.AfterFunc(2*time.Second, func() { s.Default(script.Acquire, script.Pass()) })
		at := taken(t, k)
		require.False(t, at.Before(back))
		require.Less(t, at.Sub(back), 500*time.Millisecond)
	})
}

// When an answer is lost, the same owner asks again, and gets what it has got
// already.
func TestALostAnswerIsAskedForAgain(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Script(script.Acquire, script.Pass().Lost())
		begun := time.Now()
		l := acquire(t, k, "a")
		require.Less(t, time.Since(begun), config.RequestTimeout+50*time.Millisecond)
		calls := s.Calls(script.Acquire)
		require.Len(t, calls, 2)
		require.Equal(t, calls[0].Claims[0].Owner, calls[1].Claims[0].Owner)
		require.InDelta(t, goodFor, l.Remaining(), float64(rounding),
			"counted from the second question")
		require.NoError(t, l.Release(t.Context()))
		require.Len(t, s.Calls(script.Release), 1)
	})
}

// A grant that took so long that little is left of it is not believed
// in: the same owner asks again, which extends it.
func TestAStaleGrantIsAskedForAgain(t *testing.T) {
	t.Parallel()
	onHooked(t, config, func(t *testing.T, s *hooked, k *renewer.Keeper) {
		s.acquire = func(ctx context.Context, claims []store.Claim) []store.Grant {
			grants := s.Store.Acquire(ctx, claims)
			if len(s.Calls(script.Acquire)) == 1 {
				waitFor(goodFor) // whatever the context says
			}
			return grants
		}
		l := acquire(t, k, "a")
		calls := s.Calls(script.Acquire)
		require.Len(t, calls, 2)
		require.Equal(t, calls[0].Claims[0].Owner, calls[1].Claims[0].Owner)
		require.InDelta(t, goodFor, l.Remaining(), float64(rounding),
			"counted from the second question")
		require.NoError(t, l.Release(t.Context()))
	})
}

// Patience that runs out in the middle of a question does not turn "held" into
// "unavailable".
func TestBusyIsRemembered(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Mute(true)
		s.Script(script.Acquire, script.Taken(other, time.Second), script.Hang())
		begun := time.Now()
		_, err := k.Acquire(t.Context(), renewer.Request{
			Name: "a", MaxWait: 1500 * time.Millisecond,
		})
		require.ErrorIs(t, err, renewer.ErrBusy)
		require.NotErrorIs(t, err, renewer.ErrUnavailable)
		assertInstant(t, begun.Add(1500*time.Millisecond), time.Now(), "return")
	})
}

// A caller who leaves while the question is under way leaves no key behind. It
// is deleted at once; 5 ms later, as the clean-up may have overtaken the
// question; and when that can't arrive any more.
func TestNoOrphanOfACallerWhoLeft(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]script.Step{
		"answer lost":         script.Pass().Lost(),
		"answer late":         script.Pass().Late(50 * time.Millisecond),
		"request still going": script.Hang(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				s.SetSettle(4 * time.Second)
				s.Script(script.Acquire, step)
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
				defer cancel()
				begun := time.Now()
				_, err := k.Acquire(ctx, renewer.Request{Name: "a"})
				require.ErrorIs(t, err, context.DeadlineExceeded)
				assertInstant(t, begun.Add(20*time.Millisecond), time.Now(), "return")
				waitFor(10 * time.Second)
				owner := s.Calls(script.Acquire)[0].Claims[0].Owner
				cleaned := s.Calls(script.Release)
				require.Len(t, cleaned, 3)
				for i, want := range []time.Duration{
					20 * time.Millisecond, 25 * time.Millisecond, 4 * time.Second,
				} {
					require.Equal(t, owner, cleaned[i].Holds[0].Owner)
					assertInstant(t, begun.Add(want), cleaned[i].At, "clean-up")
				}
				names, orphans := k.NamesAndOrphans()
				require.Zero(t, names+orphans)
			})
		})
	}
}

// The lock is granted to a caller who has gone: it is freed at once, not after
// a TTL.
func TestNoOrphanOfACallerWhoLeftAsItWasGranted(t *testing.T) {
	t.Parallel()
	onHooked(t, config, func(t *testing.T, s *hooked, k *renewer.Keeper) {
		ctx, leave := context.WithCancel(t.Context())
		s.acquire = func(ctx context.Context, claims []store.Claim) []store.Grant {
			defer leave()
			return s.Store.Acquire(ctx, claims)
		}
		_, err := k.Acquire(ctx, renewer.Request{Name: "a"})
		require.ErrorIs(t, err, context.Canceled)
		synctest.Wait()
		require.Empty(t, s.Owner("a"))
	})
}

// A question that got lost on its way may arrive after the lock was
// got by a second one, and given back: what it does then is undone.
func TestNoOrphanOfAnEarlierQuestion(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, s *script.Store, k *renewer.Keeper){
		"given back": func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
			require.NoError(t, acquire(t, k, "a").Release(t.Context()))
		},
		"lost": func(t *testing.T, s *script.Store, k *renewer.Keeper) {
			l := acquire(t, k, "a")
			s.Script(script.Renew, script.Gone())
			<-l.Context().Done()
			require.ErrorIs(t, l.Release(t.Context()), renewer.ErrLost)
		},
		"refused": func(t *testing.T, s *script.Store, k *renewer.Keeper) {
			s.Default(script.Acquire, script.Taken(other, time.Minute))
			_, err := k.Acquire(t.Context(), renewer.Request{Name: "a", MaxWait: 3 * time.Second})
			require.ErrorIs(t, err, renewer.ErrBusy)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				s.SetSettle(7 * time.Second)
				s.Script(script.Acquire, script.Hang())
				begun := time.Now()
				end(t, s, k)
				waitFor(20 * time.Second)
				owner := s.Calls(script.Acquire)[0].Claims[0].Owner
				released := s.Calls(script.Release)
				last := released[len(released)-1]
				require.Equal(t, owner, last.Holds[0].Owner)
				assertInstant(t, begun.Add(7*time.Second), last.At, "clean-up")
				_, orphans := k.NamesAndOrphans()
				require.Zero(t, orphans)
			})
		})
	}
}

// A claim that was answered "taken" left nothing behind, so there is nothing to
// clean up.
func TestARefusalNeedsNoCleanUp(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Script(script.Acquire, script.Pass().Broken(errDown))
		s.Default(script.Acquire, script.Taken(other, time.Minute))
		_, err := k.Acquire(t.Context(), renewer.Request{Name: "b", MaxWait: time.Second})
		require.ErrorIs(t, err, renewer.ErrBusy)
		synctest.Wait()
		require.Empty(t, s.Calls(script.Release))
	})
}

// Where the network takes longer than Config.RequestTimeout, no question is
// ever answered, and the caller heard no more than that its own deadline had
// passed.
func TestEveryQuestionRunsOutOfTime(t *testing.T) {
	t.Parallel()
	cfg := renewer.Config{TTL: 2 * time.Second, FailOver: time.Hour}
	inBubble(t, cfg, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Default(script.Acquire, script.Pass().Slow(400*time.Millisecond))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := k.Acquire(ctx, renewer.Request{Name: "a"})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, renewer.ErrUnavailable)
		for _, part := range []string{
			"none of the questions",
			"Config.RequestTimeout (" + k.Config().RequestTimeout.String() +
				")", "Config.TTL (2s)",
		} {
			assert.ErrorContains(t, err, part)
		}
		_, err = k.Acquire(t.Context(), renewer.Request{Name: "b", Try: true})
		require.ErrorIs(t, err, renewer.ErrUnavailable)
		require.NotErrorIs(t, err, context.DeadlineExceeded, "that is not the caller's")
		assert.ErrorContains(t, err, "none of the questions so far (1)")

		s.Script(script.Acquire, script.Fail(errDown))
		ctx, cancel = context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err = k.Acquire(ctx, renewer.Request{Name: "c"})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.NotContains(t, err.Error(), "none of the questions", "one was")
		assert.ErrorContains(t, err, "not answered in time")
	})
}

// A caller who has seen the holder, and is then refused by the store for good,
// hears of that: it says what to mend.
func TestARejectionIsNotHiddenBehindTheHolder(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Script(script.Acquire, script.Taken(store.Holder{Node: "other"}, 100*time.Millisecond),
			script.Fail(fmt.Errorf("%w: NOPERM", renewer.ErrRejected)))
		_, err := k.Acquire(t.Context(), renewer.Request{Name: "a", MaxWait: time.Second})
		require.ErrorIs(t, err, renewer.ErrUnavailable)
		require.ErrorIs(t, err, renewer.ErrRejected)
		require.ErrorContains(t, err, "NOPERM")
	})
}
