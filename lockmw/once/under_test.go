package once_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// A lock that was asked for in the function was waited for with a transaction
// open, and was free before that was committed.
func TestTheOtherLockIsAroundTheTransaction(t *testing.T) {
	t.Parallel()
	inLedger(t, func(t *testing.T, s *script.Store, k *renewer.Keeper, l *ledger) {
		lease, err := k.Acquire(t.Context(), renewer.Request{Name: "customer"})
		require.NoError(t, err)
		free := time.Now().Add(3 * time.Second)
		time.AfterFunc(3*time.Second, func() { _ = lease.Release(t.Context()) })
		l.begin = func() { require.False(t, time.Now().Before(free), "it waits in a transaction") }
		l.before = func(store.Record) { require.NotEmpty(t, s.Owner("customer")) }
		pay := func(ctx context.Context) (int, error) {
			require.True(t, lockmw.Held(ctx, "customer"))
			require.True(t, lockmw.Held(ctx, "payment"))
			return 7, nil
		}
		under := []once.Option{once.RecordIn(l), once.Under("customer")}
		got, err := once.Do(t.Context(), k, "payment", pay, under...)
		require.NoError(t, err)
		require.Equal(t, 7, got)
		require.Empty(t, s.Owner("customer"))

		lease, err = k.Acquire(t.Context(), renewer.Request{Name: "customer"})
		require.NoError(t, err)
		begun := time.Now()
		got, err = once.Do(t.Context(), k, "payment", pay, under...)
		require.NoError(t, err)
		require.Equal(t, 7, got)
		require.Zero(t, time.Since(begun), "work that is done needs no lock")
		require.NoError(t, lease.Release(t.Context()))
	})
}

// An attempt whose other lock is not to be had is none.
func TestTheOtherLockIsBusy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		opts []once.Option
		took time.Duration
	}{
		"waits as the call does": {
			[]once.Option{once.Under("customer"), lockmw.Wait(time.Second)}, time.Second,
		},
		"one of several is busy": {
			[]once.Option{
				once.Under(lockmw.All("account", "customer")), lockmw.Wait(time.Second),
			}, time.Second,
		},
		"does not wait": {[]once.Option{once.Under("customer"), lockmw.Refuse()}, 0},
	} {
		inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
			lease, err := k.Acquire(t.Context(), renewer.Request{Name: "customer"})
			require.NoError(t, err)
			begun := time.Now()
			_, err = once.Do(t.Context(), k, "payment", never(t), c.opts...)
			require.ErrorIs(t, err, renewer.ErrBusy, name)
			require.Equal(t, c.took, time.Since(begun), name)
			require.Empty(t, s.RecordOf("payment"), name)
			require.Empty(t, s.Owner("payment"), name)
			require.NoError(t, lease.Release(t.Context()))
			got, err := once.Do(t.Context(), k, "payment", func(ctx context.Context) (int, error) {
				return once.Current(ctx).Number, nil
			}, append(c.opts, once.Input("another"))...)
			require.NoError(t, err, name)
			require.Equal(t, 1, got, name)
		})
	}
}

// An attempt that has failed since it lost its other lock is followed by the
// next at once.
func TestTheOtherLockIsLost(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		var losses []error
		begun := time.Time{}
		got, err := once.Do(t.Context(), k, "payment", func(ctx context.Context) (int, error) {
			if once.Current(ctx).Number == 1 {
				s.Delete("customer")
				<-ctx.Done()
				losses = append(losses, context.Cause(ctx))
				begun = time.Now()
				return 0, errors.New("cut")
			}
			require.Zero(t, time.Since(begun))
			return 7, nil
		}, once.Under("customer"))
		require.NoError(t, err)
		require.Equal(t, 7, got)
		require.Len(t, losses, 1)
		require.ErrorIs(t, losses[0], renewer.ErrLost)
	})
}

func TestNamesThatNoOtherLockCanHave(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		twice := lockmw.All(lockmw.Limit("a", 1), lockmw.Limit("a", 1))
		for _, name := range []lockmw.Set{
			{},
			lockmw.All(""), lockmw.All(strings.Repeat("x", store.MaxName+1)), twice,
			lockmw.Invalid(errors.New("no customer")),
		} {
			_, err := once.Do(t.Context(), k, "payment", never(t), once.Under(name))
			require.ErrorIs(t, err, renewer.ErrName)
			require.Empty(t, s.RecordOf("payment"))
		}
		got, err := once.Do(t.Context(), k, "payment", func(context.Context) (int, error) {
			return 7, nil
		}, once.Under("payment"))
		require.NoError(t, err, "it has that lock already")
		require.Equal(t, 7, got)
	})
}
