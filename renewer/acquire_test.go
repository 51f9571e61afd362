package renewer_test

import (
	"context"
	"errors"
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

var other = store.Holder{Node: "there", PID: 7, Operation: "import"}

func TestLeaseGivesWhatItPromises(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		type key struct{}
		ctx := context.WithValue(t.Context(), key{}, "value")
		l, err := k.Acquire(ctx, renewer.Request{Name: "a", Operation: "transfer"})
		require.NoError(t, err)
		require.Equal(t, "a", l.Name())
		require.Positive(t, l.Fence())
		require.True(t, l.Valid())
		require.InDelta(t, goodFor, l.Remaining(), float64(rounding))
		require.NoError(t, l.Err())
		require.Equal(t, "value", l.Context().Value(key{}))
		claim := s.Calls(script.Acquire)[0].Claims[0]
		require.Len(t, claim.Owner, store.OwnerLen)
		require.Equal(t, config.TTL, claim.TTL)
		require.Equal(t, "here", claim.Holder.Node)
		require.Equal(t, "transfer", claim.Holder.Operation)

		require.NoError(t, l.Release(ctx))
		require.False(t, l.Valid())
		require.Zero(t, l.Remaining())
		require.NoError(t, l.Err())
		require.ErrorIs(t, context.Cause(l.Context()), context.Canceled)
		require.NotErrorIs(t, context.Cause(l.Context()), renewer.ErrLost)
		require.NoError(t, l.Release(ctx), "a second release does nothing")
		require.Len(t, s.Calls(script.Release), 1)

		again := acquire(t, k, "a")
		require.Greater(t, again.Fence(), l.Fence())
		require.NoError(t, again.Release(ctx))
	})
}

func TestTheCallersCancellationIsTheOperationsButNotTheLeases(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		cause := errors.New("client gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		l, err := k.Acquire(ctx, renewer.Request{Name: "a"})
		require.NoError(t, err)
		cancel(cause)
		<-l.Context().Done()
		require.Equal(t, cause, context.Cause(l.Context()))
		waitFor(time.Hour)
		require.True(t, l.Valid(), "held until the operation returns")
		require.NoError(t, l.Release(ctx), "and freed although the caller's context is over")
		require.Equal(t, store.StatusHeld, answerOf(s, "a"))
	})
}

// answerOf frees name's key as its last claimant once more: Mine
// would mean that it had not been freed. It asserts that.
func answerOf(s *script.Store, name string) store.Status {
	calls := s.Calls(script.Acquire)
	claim := calls[len(calls)-1].Claims[0]
	a := s.Release(context.Background(), []store.Hold{{Name: name, Owner: claim.Owner}})[0]
	if a.Status == store.StatusGone {
		return store.StatusHeld
	}
	return store.StatusUnknown
}

// A lock asked for under another that was lost meanwhile is not acquired, and
// the error says so.
func TestALossEndsWhatWasAskedUnderIt(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		outer := acquire(t, k, "outer")
		s.Script(script.Acquire, script.Taken(other, time.Hour))
		s.Script(script.Renew, script.Gone())
		_, err := k.Acquire(outer.Context(), renewer.Request{Name: "inner"})
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, renewer.ErrLost)
		require.NotErrorIs(t, err, renewer.ErrBusy)
		require.ErrorIs(t, outer.Release(t.Context()), renewer.ErrLost)
	})
}

// A key that another program has written is held by no owner, perhaps for ever:
// who is refused is told so, also one who stands behind another caller of this
// process, and one who has waited.
func TestForeignKeyIsTold(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Default(script.Acquire, script.Overwritten())
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		waited := make(chan error, 1)
		go func() {
			_, err := k.Acquire(ctx, renewer.Request{Name: "a"})
			waited <- err
		}()
		synctest.Wait()
		_, behind := k.Acquire(ctx, renewer.Request{Name: "a", Try: true})
		_, patient := k.Acquire(ctx, renewer.Request{Name: "b", MaxWait: time.Second})
		_, alone := k.Acquire(ctx, renewer.Request{Name: "c", Try: true})
		for name, err := range map[string]error{
			"behind": behind, "alone": alone, "patient": patient, "out of time": <-waited,
		} {
			require.ErrorContains(t, err, "another program has written its key", name)
			held, ok := errors.AsType[*renewer.Error](err)
			require.True(t, ok, name)
			require.Zero(t, held.Holder, name)
			if name != "out of time" {
				require.ErrorIs(t, err, renewer.ErrBusy, name)
			}
		}
	})
}

func TestErrorsAreTold(t *testing.T) {
	t.Parallel()
	all := []error{
		renewer.ErrBusy, renewer.ErrUnavailable, renewer.ErrShutdown, renewer.ErrName,
		renewer.ErrLost, renewer.ErrConfig,
		context.Canceled, context.DeadlineExceeded,
	}
	tests := []struct {
		name string
		want error
		also error
		text string
		do   func(t *testing.T, s *script.Store, k *renewer.Keeper) error
	}{
		{
			"held elsewhere", renewer.ErrBusy, nil,
			`acquire "a": held by another owner; last seen with there pid 7 (import); lapses in ` +
				`4s`, func(t *testing.T, s *script.Store, k *renewer.Keeper) error {
				s.Script(script.Acquire, script.Taken(other, 4*time.Second))
				_, err := k.Acquire(t.Context(), renewer.Request{Name: "a", Try: true})
				var e *renewer.Error
				require.ErrorAs(t, err, &e)
				require.Equal(t, other, e.Holder)
				require.Equal(t, 4*time.Second, e.RetryAfter)
				require.Equal(t, 1, e.Attempts)
				return err
			},
		},
		{
			"held here", renewer.ErrBusy, nil, "last seen with here pid",
			func(t *testing.T, s *script.Store, k *renewer.Keeper) error {
				l := acquire(t, k, "a")
				waitFor(time.Second)
				_, err := k.Acquire(t.Context(), renewer.Request{Name: "a", Try: true})
				var e *renewer.Error
				require.ErrorAs(t, err, &e)
				require.Zero(t, e.Attempts, "nobody was asked")
				require.Equal(t, time.Second, e.HeldFor)
				require.NoError(t, l.Release(t.Context()))
				return err
			},
		},
		{
			"wait ran out", renewer.ErrBusy, nil, "after 3s",
			func(t *testing.T, s *script.Store, k *renewer.Keeper) error {
				s.Default(script.Acquire, script.Taken(other, time.Minute))
				begun := time.Now()
				_, err := k.Acquire(t.Context(), renewer.Request{
					Name: "a", MaxWait: 3 * time.Second,
				})
				assertInstant(t, begun.Add(3*time.Second), time.Now(), "return")
				return err
			},
		},
		{
			"store down, one try", renewer.ErrUnavailable, errDown,
			"lock store unavailable: connection refused", func(t *testing.T, s *script.Store,
				k *renewer.Keeper,
			) error {
				s.Default(script.Acquire, script.Fail(errDown))
				_, err := k.Acquire(t.Context(), renewer.Request{Name: "a", Try: true})
				return err
			},
		},
		{
			"store down for all of the wait", renewer.ErrUnavailable, errDown, "after 3s",
			func(t *testing.T, s *script.Store, k *renewer.Keeper) error {
				s.Default(script.Acquire, script.Fail(errDown))
				_, err := k.Acquire(t.Context(), renewer.Request{
					Name: "a", MaxWait: 3 * time.Second,
				})
				require.Greater(t, len(s.Calls(script.Acquire)), 4, "it was tried again")
				require.Less(t, len(s.Calls(script.Acquire)), 30, "but not in a hurry")
				return err
			},
		},
		{
			"store hangs for all of the wait", renewer.ErrUnavailable, nil, "after 1s",
			func(t *testing.T, s *script.Store, k *renewer.Keeper) error {
				s.Default(script.Acquire, script.Hang())
				begun := time.Now()
				_, err := k.Acquire(t.Context(), renewer.Request{Name: "a", MaxWait: time.Second})
				assertInstant(t, begun.Add(time.Second), time.Now(), "return")
				return err
			},
		},
		{
			"store refuses for good", renewer.ErrUnavailable, renewer.ErrRejected, "NOPERM",
			func(t *testing.T, s *script.Store, k *renewer.Keeper) error {
				s.Default(script.Acquire,
					script.Fail(fmt.Errorf("%w: NOPERM", renewer.ErrRejected)))
				begun := time.Now()
				_, err := k.Acquire(t.Context(), renewer.Request{Name: "a"})
				require.Equal(t, begun, time.Now(), "no use in waiting")
				return err
			},
		},
		{
			"cancelled before", context.Canceled, nil, "context canceled",
			func(t *testing.T, s *script.Store, k *renewer.Keeper) error {
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				_, err := k.Acquire(ctx, renewer.Request{Name: "a"})
				require.Empty(t, s.Calls(script.Acquire), "nobody was asked")
				return err
			},
		},
		{
			"cancelled while waiting, with a cause", context.Canceled, errDown,
			"connection refused",
			func(t *testing.T, s *script.Store, k *renewer.Keeper) error {
				s.Default(script.Acquire, script.Taken(other, time.Minute))
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { cancel(errDown) })
				_, err := k.Acquire(ctx, renewer.Request{Name: "a"})
				return err
			},
		},
		{
			"caller's deadline", context.DeadlineExceeded, renewer.ErrBusy, "last seen with there",
			func(t *testing.T, s *script.Store, k *renewer.Keeper) error {
				s.Default(script.Acquire, script.Taken(other, time.Minute))
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := k.Acquire(ctx, renewer.Request{Name: "a"})
				return err
			},
		},
		{
			"no name", renewer.ErrName, nil,
			`acquire "": invalid lock name: it is empty, or made of an empty part; name what`,
			func(t *testing.T, s *script.Store, k *renewer.Keeper) error {
				_, err := k.Acquire(t.Context(), renewer.Request{Name: ""})
				require.Empty(t, s.Calls(script.Acquire))
				return err
			},
		},
		{
			"shut down", renewer.ErrShutdown, nil, "keeper is shut down",
			func(t *testing.T, s *script.Store, k *renewer.Keeper) error {
				k2, err := renewer.New(s, config)
				require.NoError(t, err)
				require.NoError(t, k2.Shutdown(t.Context()))
				_, err = k2.Acquire(t.Context(), renewer.Request{Name: "a"})
				return err
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				err := tt.do(t, s, k)
				for _, kind := range all {
					want := errors.Is(tt.want, kind) || errors.Is(tt.also, kind)
					assert.Equal(t, want, errors.Is(err, kind), "is %v: %v", kind, err)
				}
				if tt.also != nil {
					require.ErrorIs(t, err, tt.also)
				}
				require.ErrorContains(t, err, tt.text)
				synctest.Wait()
				names, _ := k.NamesAndOrphans()
				require.Zero(t, names, "nothing is left behind")
				require.Zero(t, s.Watchers("a"))
			})
		})
	}
}
