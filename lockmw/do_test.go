package lockmw_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

var (
	errOperation = errors.New("the operation failed")
	errDown      = errors.New("connection refused")
	other        = store.Holder{Node: "there", PID: 7, Operation: "import"}
)

// free fails the test unless name is free.
func free(t *testing.T, k *renewer.Keeper, name string) {
	t.Helper()
	l, err := k.Acquire(t.Context(), renewer.Request{Name: name, Try: true})
	require.NoError(t, err)
	require.NoError(t, l.Release(t.Context()))
}

func answer(context.Context) (int, error) { return 42, nil }

func TestDoGivesWhatTheFunctionGives(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		n, err := lockmw.Do(t.Context(), k, "a", func(ctx context.Context) (int, error) {
			require.True(t, lockmw.Held(ctx, "a"))
			require.False(t, lockmw.Held(ctx, "b"))
			require.Positive(t, lockmw.Fence(ctx))
			require.Positive(t, lockmw.Remaining(ctx))
			_, err := k.Acquire(ctx, renewer.Request{Name: "a", Try: true})
			require.ErrorIs(t, err, renewer.ErrBusy)
			return 42, nil
		}, lockmw.Operation("answering"))
		require.NoError(t, err)
		require.Equal(t, 42, n)
		require.Equal(t, "answering", s.Calls(script.Acquire)[0].Claims[0].Holder.Operation)
		free(t, k, "a")

		n, err = lockmw.Do(t.Context(), k, "a", func(context.Context) (int, error) {
			return 7, errOperation
		})
		require.Equal(t, errOperation, err, "as it is")
		require.Equal(t, 7, n)
		free(t, k, "a")
	})
}

func TestWrapDerivesTheKey(t *testing.T) {
	t.Parallel()
	type order struct{ ID string }
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		key := func(o order) string { return lockmw.Key("order", o.ID) }
		charge := lockmw.Wrap(k, key, func(ctx context.Context, o order) (string, error) {
			if !lockmw.Held(ctx, "order:"+o.ID) {
				return "", errors.New("not held")
			}
			return "receipt " + o.ID, nil
		})
		receipt, err := charge(t.Context(), order{"42"})
		require.NoError(t, err)
		require.Equal(t, "receipt 42", receipt)
		free(t, k, "order:42")

		_, err = charge(t.Context(), order{})
		require.ErrorIs(t, err, renewer.ErrName, "an empty part of a key makes no key")
		require.Len(t, s.Calls(script.Acquire), 2)

		wrapped := func(context.Context, order) (int, error) { return 0, nil }
		require.Panics(t, func() { lockmw.Wrap(nil, key, wrapped) })
		require.Panics(t, func() { lockmw.Wrap[order, int, string](k, nil, wrapped) })
		require.Panics(t, func() { lockmw.Wrap[order, int](k, key, nil) })
	})
}

func TestAnOptionThatIsNilIsIgnored(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
		n, err := lockmw.Do(t.Context(), k, "a", answer, nil, lockmw.Refuse())
		require.NoError(t, err)
		require.NotZero(t, n)
		ctx, cancel := context.WithCancel(t.Context())
		require.NoError(t, lockmw.Lead(ctx, k, "a", func(context.Context) error {
			cancel()
			return nil
		}, nil))
	})
}

// An option that can't be meant is refused, before anything is asked.
func TestOptionsThatCannotBeMeant(t *testing.T) {
	t.Parallel()
	for says, opt := range map[string]lockmw.Option{
		"Wait(0s): give how long to wait": lockmw.Wait(0), "Wait(-1s)": lockmw.Wait(-time.Second),
		"MaxWaiters(0): give 1 or more": lockmw.MaxWaiters(0), "MaxHold(0s)": lockmw.MaxHold(0),
		"HoldAtLeast(-1ns)": lockmw.HoldAtLeast(-1), "Manual(0s)": lockmw.Manual(0),
		"LocalShare(0)": lockmw.LocalShare(0), "MaxHold is 1s": lockmw.MaxHold(time.Second),
	} {
		inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
			_, err := lockmw.Do(t.Context(), k, "a", answer, opt)
			require.ErrorIs(t, err, renewer.ErrConfig)
			require.ErrorContains(t, err, says)
			require.Empty(t, s.Calls(script.Acquire))
			require.Panics(t, func() {
				lockmw.WrapRun(k, func(string) string { return "a" },
					func(context.Context, string) error { return nil }, opt)
			}, says)
		})
	}
}

func TestContentionPolicies(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		opts []lockmw.Option
		want error
		not  error
		wait time.Duration
	}{
		{"default", nil, renewer.ErrBusy, lockmw.ErrSkipped, lockmw.DefaultWait},
		{
			"wait",
			[]lockmw.Option{lockmw.Wait(3 * time.Second)},
			renewer.ErrBusy, lockmw.ErrSkipped,
			3 * time.Second,
		},
		{"refuse", []lockmw.Option{lockmw.Refuse()}, renewer.ErrBusy, lockmw.ErrSkipped, 0},
		{"skip", []lockmw.Option{lockmw.Skip()}, lockmw.ErrSkipped, renewer.ErrBusy, 0},
		{
			"the last counts",
			[]lockmw.Option{lockmw.Skip(), lockmw.Wait(time.Second)},
			renewer.ErrBusy, lockmw.ErrSkipped, time.Second,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				s.Script(script.Acquire, script.Taken(other, time.Hour))
				begun := time.Now()
				n, err := lockmw.Do(t.Context(), k, "a", func(context.Context) (int, error) {
					t.Error("it ran")
					return 1, nil
				}, tt.opts...)
				require.Zero(t, n)
				require.ErrorIs(t, err, tt.want)
				require.NotErrorIs(t, err, tt.not)
				require.ErrorContains(t, err, `"a"`)
				require.ErrorContains(t, err, "there pid 7 (import)")
				require.Contains(t, renewer.ErrorText(err), "there pid 7 (import)")
				require.NotContains(t, renewer.ErrorText(err), `"a"`, "a log shows no name")
				require.Equal(t, tt.wait, time.Since(begun))
			})
		})
	}
}

// starts writes down what it hears of acquires that begin.
type starts struct {
	renewer.NopObserver
	heard []renewer.AcquireStart
}

func (s *starts) AcquireStart(ctx context.Context, e renewer.AcquireStart) context.Context {
	s.heard = append(s.heard, e)
	return ctx
}

// Observers hear of which caller it is nothing unusual to be refused.
func TestARefusalIsExpected(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		opts []lockmw.Option
		want bool
	}{
		"default":  {nil, false},
		"a wait":   {[]lockmw.Option{lockmw.Wait(time.Second)}, false},
		"refuse":   {[]lockmw.Option{lockmw.Refuse()}, false},
		"skip":     {[]lockmw.Option{lockmw.Skip()}, true},
		"expected": {[]lockmw.Option{lockmw.Wait(time.Second), lockmw.Expected}, true},
		"expected, manually": {
			[]lockmw.Option{lockmw.Manual(time.Minute), lockmw.Expected}, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o := new(starts)
				k, err := renewer.New(script.New(), renewer.Config{TTL: time.Minute, Observer: o})
				require.NoError(t, err)
				_, err = lockmw.Do(t.Context(), k, "a", answer, c.opts...)
				require.NoError(t, err)
				require.Equal(t, []renewer.AcquireStart{
					{Name: "a", RefusalExpected: c.want},
				}, o.heard)
				require.NoError(t, k.Shutdown(t.Context()))
			})
		})
	}
}

// Only contention is skipped: a store that is down is no reason to
// believe that the work is being done.
func TestSkipDoesNotHideAStoreThatIsDown(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Script(script.Acquire, script.Fail(errDown))
		_, err := lockmw.Do(t.Context(), k, "a", answer, lockmw.Skip())
		require.ErrorIs(t, err, renewer.ErrUnavailable)
		require.NotErrorIs(t, err, lockmw.ErrSkipped)
		require.NotErrorIs(t, err, renewer.ErrBusy)
	})
}

func TestLosses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		operation error
		opts      []lockmw.Option
		lost      bool
	}{
		{"a finished result stands", nil, nil, false},
		{"strict makes it an error", nil, []lockmw.Option{lockmw.Strict()}, true},
		{"the loss is joined to an error", errOperation, nil, true},
		{
			"the loss is joined to an error, strictly", errOperation,
			[]lockmw.Option{lockmw.Strict()},
			true,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, when := range []string{"during", "found at the release"} {
				inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
					n, err := lockmw.Do(t.Context(), k, "a",
						func(ctx context.Context) (int, error) {
							if when == "during" {
								s.Script(script.Renew, script.Gone())
								<-ctx.Done()
								require.ErrorIs(t, context.Cause(ctx), renewer.ErrLost)
								require.False(t, lockmw.Held(ctx, "a"))
								require.Zero(t, lockmw.Remaining(ctx))
								require.Positive(t, lockmw.Fence(ctx), "for the resource to refuse")
							} else {
								s.Script(script.Release, script.Gone())
							}
							return 42, tt.operation
						}, tt.opts...)
					require.Equal(t, 42, n, "the result is there in any case")
					require.Equal(t, tt.lost, errors.Is(err, renewer.ErrLost), "%v", err)
					if tt.operation != nil {
						require.ErrorIs(t, err, tt.operation, "nothing is masked")
					}
				})
			}
		})
	}
}

// That the key could not be freed is no concern of the caller, who has a
// result.
func TestAFailedReleaseMasksNothing(t *testing.T) {
	t.Parallel()
	for _, opts := range [][]lockmw.Option{nil, {lockmw.Strict()}} {
		inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
			s.Script(script.Release, script.Fail(errDown))
			n, err := lockmw.Do(t.Context(), k, "a", answer, opts...)
			require.NoError(t, err)
			require.Equal(t, 42, n)
			elapse(time.Second)
			free(t, k, "a")
		})
	}
}

// An operation that ignores its cancellation keeps the lock until it returns.
func TestTheLockIsHeldUntilTheFunctionReturns(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := lockmw.Do(ctx, k, "a", func(ctx context.Context) (int, error) {
			elapse(time.Hour)
			require.ErrorIs(t, ctx.Err(), context.DeadlineExceeded)
			require.True(t, lockmw.Held(ctx, "a"))
			return 0, ctx.Err()
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, renewer.ErrLost)
		free(t, k, "a")
	})
}

func TestACallerWhoIsGoneDoesNotRun(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Script(script.Acquire, script.Pass().Late(time.Second))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second/2, cancel)
		_, err := lockmw.Do(ctx, k, "a", func(context.Context) (int, error) {
			t.Error("it ran")
			return 0, nil
		})
		require.ErrorIs(t, err, context.Canceled)
		synctest.Wait()
		free(t, k, "a")
	})
}
