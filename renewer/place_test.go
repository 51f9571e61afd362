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

// inLine is the answer of a store in whose line a claim's place stands.
var inLine = script.Taken(other, time.Hour).Queued()

// comesFirst is waits for one that is refused, and then stands in line.
func comesFirst(
	ctx context.Context, s *script.Store, k *renewer.Keeper, more ...renewer.Request,
) <-chan error {
	s.Mute(false)
	s.Script(script.Acquire, script.Taken(other, time.Hour))
	done := waits(ctx, k, more...)
	s.Mute(true)
	return done
}

// claimOf is the claim of the last question, after n of them.
func claimOf(t *testing.T, s *script.Store, n int) store.Claim {
	t.Helper()
	calls := s.Calls(script.Acquire)
	require.Len(t, calls, n)
	return calls[n-1].Claims[0]
}

// givenUp are the places that were given up, and when.
func givenUp(s *script.Store) (places []uint64, at []time.Time) {
	for _, c := range s.Calls(script.Release) {
		for _, h := range c.Holds {
			if h.Place != 0 {
				places, at = append(places, h.Place), append(at, c.At)
			}
		}
	}
	return places, at
}

// The place is the queue's: it outlives the heads that ask from it, one after
// the other, and is given up once, when the last one leaves.
func TestAPlaceOutlivesItsHead(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Default(script.Acquire, inLine)
		begun := time.Now()
		first := comesFirst(t.Context(), s, k, renewer.Request{MaxWait: time.Second})
		second := waits(t.Context(), k, renewer.Request{MaxWait: 2 * time.Second})
		a := claimOf(t, s, 2)
		require.NotZero(t, a.Place)

		require.ErrorIs(t, <-first, renewer.ErrBusy)
		synctest.Wait()
		b := claimOf(t, s, 3)
		assertInstant(t, begun.Add(time.Second), s.Calls(script.Acquire)[2].At, "asked at once")
		assert.Equal(t, a.Place, b.Place)
		assert.Equal(t, a.Owner, b.Owner, "it is one claim, which may be granted")
		assert.Empty(t, s.Calls(script.Release), "a caller wants the place")

		require.ErrorIs(t, <-second, renewer.ErrBusy)
		waitFor(time.Minute)
		places, at := givenUp(s)
		require.Equal(t, []uint64{a.Place}, places)
		assertInstant(t, begun.Add(2*time.Second), at[0], "given up at once")
		assert.Equal(t, b.Owner, s.Calls(script.Release)[0].Holds[0].Owner)
	})
}

// A grant uses the place up.
func TestAGrantUsesThePlaceUp(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Default(script.Acquire, inLine)
		first := comesFirst(t.Context(), s, k)
		a := claimOf(t, s, 2)
		s.Mute(false)
		s.Script(script.Acquire, script.Held())
		s.Wake("a", nil)
		require.NoError(t, <-first)
		assert.Equal(t, a.Place, claimOf(t, s, 3).Place, "asked again from where it stands")
		second := comesFirst(t.Context(), s, k, renewer.Request{MaxWait: time.Second})
		b := claimOf(t, s, 5)
		assert.NotEqual(t, a.Place, b.Place)
		require.ErrorIs(t, <-second, renewer.ErrBusy)
		synctest.Wait()
		places, _ := givenUp(s)
		require.Equal(t, []uint64{b.Place}, places)
	})
}

// A name that was waited for a moment ago is asked for from a place at once, so
// that who is refused again stands in line without a second question; one that
// was left alone since is not.
func TestAPlaceFromTheFirstQuestion(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		asks := func() uint64 {
			l, err := k.Acquire(t.Context(), renewer.Request{Name: "a"})
			require.NoError(t, err)
			require.NoError(t, l.Release(t.Context()))
			calls := s.Calls(script.Acquire)
			return calls[len(calls)-1].Claims[0].Place
		}
		require.NotZero(t, asks(), "the first of all: places are wanted")
		require.Zero(t, asks(), "nobody has waited")
		s.Script(script.Acquire, inLine)
		waited := asks()
		require.NotZero(t, waited)
		again := asks()
		require.NotZero(t, again)
		assert.NotEqual(t, waited, again, "a grant uses it up")
		waitFor(2 * time.Second)
		assert.Zero(t, asks(), "nobody has waited since")
		places, _ := givenUp(s)
		assert.Empty(t, places)
	})
}

// A caller that does not wait wants no place, and leaves that of the queue
// alone, even if it comes to its front.
func TestATryHasNoPlace(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Mute(true)
		s.Default(script.Acquire, inLine)
		_, err := k.Acquire(t.Context(), renewer.Request{Name: "a", Try: true})
		require.ErrorIs(t, err, renewer.ErrBusy)
		require.Zero(t, claimOf(t, s, 1).Place)

		s.Script(script.Acquire, script.Pass().Late(time.Minute))
		ctx, leave := context.WithCancel(t.Context())
		head := waits(ctx, k)
		try := waits(t.Context(), k, renewer.Request{Try: true})
		last := waits(t.Context(), k, renewer.Request{MaxWait: time.Second})
		leave()
		require.ErrorIs(t, <-head, context.Canceled)
		require.ErrorIs(t, <-try, renewer.ErrBusy)
		synctest.Wait()
		assert.Zero(t, s.Calls(script.Acquire)[2].Claims[0].Place, "though another waits")
		place := claimOf(t, s, 4).Place
		assert.NotZero(t, place)
		require.ErrorIs(t, <-last, renewer.ErrBusy)
		synctest.Wait()
		places, _ := givenUp(s)
		require.Equal(t, []uint64{place}, places)
	})
}

// What the store has not answered, it may have put into its line.
func TestAPlaceThatMayStandInLineIsGivenUp(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		steps []script.Step
		want  bool
	}{
		"in line":                            {[]script.Step{inLine}, true},
		"not in line":                        {[]script.Step{script.Taken(other, time.Hour)}, false},
		"unanswered":                         {[]script.Step{script.Hang()}, true},
		"failed":                             {[]script.Step{script.Fail(errDown)}, true},
		"not sent":                           {[]script.Step{script.Fail(errDown).Unsent()}, false},
		"in line, and then failed":           {[]script.Step{inLine, script.Fail(errDown)}, true},
		"in line, and then not sent":         {[]script.Step{inLine, script.Fail(errDown).Unsent()}, true},
		"in line, and then passed over":      {[]script.Step{inLine, script.Taken(other, time.Hour)}, false},
		"not in line, and then not answered": {[]script.Step{script.Taken(other, time.Hour), script.Hang()}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				s.Script(script.Acquire, script.Taken(other, time.Hour))
				s.Script(script.Acquire, test.steps...)
				s.Default(script.Acquire, test.steps[len(test.steps)-1])
				ctx, leave := context.WithCancel(t.Context())
				done := waits(ctx, k)
				s.Mute(true)
				for range test.steps[1:] {
					s.Mute(false)
					s.Wake("a", nil)
					s.Mute(true)
					synctest.Wait()
				}
				place := s.Calls(script.Acquire)[1].Claims[0].Place
				require.Len(t, s.Calls(script.Acquire), 1+len(test.steps))
				leave()
				require.ErrorIs(t, <-done, context.Canceled)
				synctest.Wait()
				places, _ := givenUp(s)
				if !test.want {
					require.Empty(t, places)
					return
				}
				require.Equal(t, []uint64{place}, places)
			})
		})
	}
}

// A waiter that comes to the front in the moment in which it leaves gives the
// place up as well.
func TestAllLeaveAtOnce(t *testing.T) {
	t.Parallel()
	for i := range 30 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				s.Default(script.Acquire, inLine)
				ctx, leave := context.WithCancel(t.Context())
				calls := []<-chan error{comesFirst(ctx, s, k), waits(ctx, k), waits(ctx, k)}
				place := claimOf(t, s, 2).Place
				leave()
				for _, c := range calls {
					require.ErrorIs(t, <-c, context.Canceled)
				}
				synctest.Wait()
				places, _ := givenUp(s)
				require.Equal(t, []uint64{place}, places)
			})
		})
	}
}

// A head that is left by a panic gives its place up, or leaves it to the next.
func TestAPanicKeepsNoPlace(t *testing.T) {
	t.Parallel()
	for _, more := range []bool{false, true} {
		t.Run(fmt.Sprint("others wait: ", more), func(t *testing.T) {
			t.Parallel()
			onHooked(t, config, func(t *testing.T, s *hooked, k *renewer.Keeper) {
				s.Script(script.Acquire, script.Taken(other, time.Hour))
				s.Default(script.Acquire, inLine)
				wait, asked := make(chan struct{}), 0
				s.acquire = func(ctx context.Context, claims []store.Claim) []store.Grant {
					grants := s.Store.Acquire(ctx, claims)
					asked++
					if asked == 2 {
						<-wait
						panic("a store's")
					}
					return grants
				}
				head := background(func() (err error) {
					defer func() { err = fmt.Errorf("%v", recover()) }()
					_, err = k.Acquire(t.Context(), renewer.Request{Name: "a"})
					return err
				})
				synctest.Wait()
				s.Mute(true)
				if more {
					defer waits(t.Context(), k, renewer.Request{MaxWait: time.Second})
				}
				last := waits(t.Context(), k, renewer.Request{MaxWait: time.Second})
				close(wait)
				require.EqualError(t, <-head, "a store's")
				require.ErrorIs(t, <-last, renewer.ErrBusy)
				waitFor(time.Second)
				place := s.Calls(script.Acquire)[1].Claims[0].Place
				places, _ := givenUp(s.Store)
				require.Equal(t, []uint64{place}, places)
			})
		})
	}
}

// A question that was not answered may put its place back into the line after a
// later one was granted: it is given up once more when that cannot be any
// longer.
func TestAPlaceThatALateQuestionTakesAgainIsGivenUp(t *testing.T) {
	t.Parallel()
	for _, leaves := range []bool{false, true} {
		t.Run(fmt.Sprint("its head leaves: ", leaves), func(t *testing.T) {
			t.Parallel()
			inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				s.SetSettle(10 * time.Second)
				s.Script(script.Acquire, script.Taken(other, time.Hour), script.Hang(), script.Held())
				begun := time.Now()
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				first := waits(ctx, k)
				second := waits(t.Context(), k)
				a := claimOf(t, s, 2)
				if leaves {
					leave()
					require.ErrorIs(t, <-first, context.Canceled)
				} else {
					require.NoError(t, <-first)
				}
				require.NoError(t, <-second)
				asked := s.Calls(script.Acquire)[2]
				require.Equal(t, a.Place, asked.Claims[0].Place)
				waitFor(time.Minute)
				places, at := givenUp(s)
				require.NotEmpty(t, places)
				require.Equal(t, a.Place, places[len(places)-1])
				assertInstant(t, begun.Add(10*time.Second), at[len(at)-1], "when it has settled")
			})
		})
	}
}
