package sql_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/lockmw/once/sqlrecord"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/renewer/store"
)

func memoryKeeper(t *testing.T) *renewer.Keeper {
	t.Helper()
	k, err := renewer.New(memory.New(), renewer.Config{TTL: renewer.DefaultTTL})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, k.Shutdown(context.WithoutCancel(t.Context()))) })
	return k
}

var errWork = errors.New("the work has failed")

// The second call gets the result from the row, and so does one by another keeper.
func TestResultIsReplayed(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *database) {
		work := func(ctx context.Context) ([]string, error) {
			return []string{"a", "\x00é"}, d.affect(ctx, "a", 1)
		}
		for range 3 {
			got, err := once.Do(t.Context(), memoryKeeper(t), "a\x00\xff", work,
				once.RecordIn(d.recorder(t)))
			require.NoError(t, err)
			require.Equal(t, []string{"a", "\x00é"}, got)
		}
		require.Equal(t, []int64{1}, d.affectedBy(t, "a"))
		require.Nil(t, sqlrecord.Tx(t.Context()))
	})
}

// An attempt that fails, panics, or says that no other will do better leaves no effect.
func TestFailedAttemptsHaveNoEffect(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *database) {
		k, recorder := memoryKeeper(t), once.RecordIn(d.recorder(t))
		do := func(name string, opts ...once.Option) error {
			_, err := once.Do(t.Context(), k, name, func(ctx context.Context) (int, error) {
				require.NoError(t, d.affect(ctx, name, 1))
				switch name {
				case "panics":
					panic(errWork)
				case "gives up":
					return 0, once.Permanent(errWork)
				default:
					return 0, errWork
				}
			}, append(opts, recorder, once.Retry(time.Millisecond, time.Second))...)
			require.Empty(t, d.affectedBy(t, name))
			return err
		}
		require.ErrorIs(t, do("fails"), once.ErrAttemptsExhausted)
		require.ErrorIs(t, do("fails"), once.ErrAttemptsExhausted)
		require.ErrorIs(t, do("gives up"), once.ErrGivenUp)
		require.ErrorIs(t, do("gives up"), once.ErrGivenUp)
		require.PanicsWithValue(t, errWork, func() { _ = do("panics") })
		require.Equal(t, 3, d.rows(t))
		require.ErrorIs(t, do("uncounted", once.MaxAttempts(lockmw.NoBound), once.NoRetry()), errWork)
		require.Equal(t, 3, d.rows(t), "it leaves no row")
	})
}

// Records that have lapsed are as nothing, and their rows can be removed.
func TestLapsedRecords(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *database) {
		r, ctx := d.recorder(t), t.Context()
		term := store.Term{Name: "a", Fence: 5, TTL: time.Millisecond}
		_, err := r.Prepare(ctx, term)
		require.NoError(t, err)
		record := store.Record{
			Name: "a", Fence: 5, Seq: 1, Data: "x", TTL: 50 * time.Millisecond,
		}
		require.NoError(t, r.Write(ctx, record), "no other holder has come")
		require.Eventually(t, func() bool {
			seen, err := r.Read(ctx, "a")
			require.NoError(t, err)
			return seen.Fence == 0
		}, 5*time.Second, 5*time.Millisecond)
		term.TTL = time.Hour
		term.Fence = 4 // as after a loss of all locks
		seen, err := r.Prepare(ctx, term)
		require.NoError(t, err)
		require.Equal(t, store.Seen{Status: store.StatusHeld}, shown(seen))
		_, err = r.Prepare(ctx, store.Term{Name: "b", Fence: 1, TTL: time.Millisecond})
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			n, err := r.DeleteLapsed(ctx)
			require.NoError(t, err)
			return n == 1
		}, 5*time.Second, 5*time.Millisecond)
		require.Equal(t, 1, d.rows(t))
	})
}

// A record in a database can be looked at and removed, but not under an attempt that runs. What an
// attempt that has lost its lock writes after that is rolled back.
func TestLookAndForget(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *database) {
		k, r := memoryKeeper(t), d.recorder(t)
		_, err := once.Do(t.Context(), k, "a", func(context.Context) (int, error) {
			return 0, errWork
		}, once.RecordIn(r), once.NoRetry(), once.Retry(time.Hour, time.Hour), once.TellErrors())
		require.ErrorIs(t, err, errWork)
		_, err = once.Do(t.Context(), k, "a", func(context.Context) (int, error) {
			panic("it runs")
		}, once.RecordIn(r), lockmw.Wait(time.Second))
		require.ErrorIs(t, err, once.ErrNotYet)
		info, err := once.Look(t.Context(), k, "a", once.RecordIn(r))
		require.NoError(t, err)
		require.Equal(t, errWork.Error(), info.Why)
		require.WithinDuration(t, time.Now().Add(24*time.Hour), info.Until, time.Minute)

		require.NoError(t, once.Forget(t.Context(), k, "a", once.RecordIn(r)))
		require.Zero(t, d.rows(t))
		_, err = once.Do(t.Context(), k, "a", func(ctx context.Context) (int, error) {
			require.Equal(t, 1, once.Current(ctx).Number)
			require.ErrorIs(t, once.Forget(t.Context(), k, "a", once.RecordIn(r)), renewer.ErrBusy)
			return 1, d.affect(ctx, "a", 1)
		}, once.RecordIn(r))
		require.NoError(t, err)
		require.NoError(t, once.Forget(t.Context(), k, "a", once.RecordIn(r)))

		late := func() error { return once.Forget(t.Context(), k, "b", once.RecordIn(r)) }
		if d.isSQLite() {
			return // its transaction is the only one: Forget would wait for it
		}
		require.ErrorIs(t, attempt(t.Context(), d, r, "b", 1, nothing, late), store.ErrNoRecord)
		require.Empty(t, d.affectedBy(t, "b"))
	})
}
