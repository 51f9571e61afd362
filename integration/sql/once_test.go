package sql_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/lockmw/once/sqlrecord"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

func memoryKeeper(t *testing.T) *renewer.Keeper {
	t.Helper()
	return keeper(t, memory.New(), renewer.DefaultTTL)
}

func keeper(t *testing.T, store renewer.Store, ttl time.Duration) *renewer.Keeper {
	t.Helper()
	k, err := renewer.New(store, renewer.Config{TTL: ttl})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, k.Shutdown(context.WithoutCancel(t.Context()))) })
	return k
}

// lockTTL is that of locks on a real server, and clientTTL what a client's limits are made for: a
// busy machine needs more than suits so short a TTL.
const (
	lockTTL   = 2 * time.Second
	clientTTL = time.Minute
)

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
			}, append(opts, recorder, once.RetryIn(time.Millisecond))...)
			require.Empty(t, d.affectedBy(t, name))
			return err
		}
		require.ErrorIs(t, do("fails"), once.ErrAttemptsExhausted)
		require.ErrorIs(t, do("fails"), once.ErrAttemptsExhausted)
		require.ErrorIs(t, do("gives up"), once.ErrGivenUp)
		require.ErrorIs(t, do("gives up"), once.ErrGivenUp)
		require.PanicsWithValue(t, errWork, func() { _ = do("panics") })
		require.Equal(t, 3, d.rows(t))
		require.ErrorIs(t, do("uncounted", once.Uncounted(), once.NoRetry()), errWork)
		require.Equal(t, 3, d.rows(t), "it leaves no row")
	})
}

// Work whose result can't be stored is done all the same, and its effect stands.
func TestEffectStandsWithoutItsResult(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *database) {
		k := memoryKeeper(t)
		for range 2 {
			_, err := once.Do(t.Context(), k, "a", func(ctx context.Context) (string, error) {
				return strings.Repeat("x", 100), d.affect(ctx, "a", 1)
			}, once.RecordIn(d.recorder(t)), once.MaxResult(10))
			require.ErrorIs(t, err, once.ErrResult)
		}
		require.Equal(t, []int64{1}, d.affectedBy(t, "a"))
	})
}

// A call that has lost its lock to another one, and goes on, has no effect, and gets the other's
// result: 100 of 100.
func TestOvertakenCallGetsTheOthersResult(t *testing.T) {
	t.Parallel()
	d := onPostgres(t)
	server := redistest.Start(t)
	client := server.Client(t)
	first, second := redisKeeper(t, server), redisKeeper(t, server)
	recorder := once.RecordIn(d.recorder(t))
	for i := range 100 {
		name, ran := fmt.Sprint(i), 0
		got, err := once.Do(t.Context(), first, name, func(ctx context.Context) (int, error) {
			ran++
			if err := d.affect(context.WithoutCancel(ctx), name, 1); err != nil {
				return 1, err
			}
			gone := client.Do(ctx, client.B().Del().Key("lockbeat:{"+name+"}").Build())
			require.NoError(t, gone.Error())
			got, err := once.Do(t.Context(), second, name, func(ctx context.Context) (int, error) {
				return 2, d.affect(ctx, name, 2)
			}, recorder)
			require.NoError(t, err)
			require.Equal(t, 2, got)
			return 1, nil
		}, recorder)
		require.NoError(t, err)
		require.Equal(t, 2, got)
		require.Equal(t, 1, ran)
		require.Equal(t, []int64{2}, d.affectedBy(t, name))
	}
}

// Records that have lapsed are as nothing, and their rows can be removed.
func TestLapsedRecords(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *database) {
		r, ctx := d.recorder(t), t.Context()
		term := renewer.Term{Name: "a", Fence: 5, TTL: time.Millisecond}
		_, err := r.Prepare(ctx, term)
		require.NoError(t, err)
		record := renewer.Record{
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
		require.Equal(t, renewer.Seen{Status: renewer.StatusHeld}, shown(seen))
		_, err = r.Prepare(ctx, renewer.Term{Name: "b", Fence: 1, TTL: time.Millisecond})
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
		}, once.RecordIn(r), once.NoRetry(), once.RetryIn(time.Hour), once.TellErrors())
		require.ErrorIs(t, err, errWork)
		_, err = once.Do(t.Context(), k, "a", func(context.Context) (int, error) {
			panic("it runs")
		}, once.RecordIn(r), once.Wait(time.Second))
		require.ErrorIs(t, err, once.ErrNotYet)
		info, err := once.Look(t.Context(), r, "a")
		require.NoError(t, err)
		require.Equal(t, once.StateBegun, info.State)
		require.Equal(t, errWork.Error(), info.Why)
		require.WithinDuration(t, time.Now(), info.Written, time.Minute)
		require.WithinDuration(t, time.Now().Add(time.Hour), info.NotBefore, 31*time.Minute)
		require.WithinDuration(t, time.Now().Add(once.DefaultKeep), info.Until, time.Minute)

		require.NoError(t, once.Forget(t.Context(), k, "a", once.RecordIn(r)))
		require.Zero(t, d.rows(t))
		_, err = once.Do(t.Context(), k, "a", func(ctx context.Context) (int, error) {
			require.Equal(t, 1, once.Current(ctx).Number)
			require.ErrorIs(t, once.Forget(t.Context(), k, "a", once.RecordIn(r)), renewer.ErrHeld)
			return 1, d.affect(ctx, "a", 1)
		}, once.RecordIn(r))
		require.NoError(t, err)
		require.NoError(t, once.Forget(t.Context(), k, "a", once.RecordIn(r)))

		late := func() error { return once.Forget(t.Context(), k, "b", once.RecordIn(r)) }
		if d.dialect == sqlrecord.SQLite {
			return // its transaction is the only one: Forget would wait for it
		}
		require.ErrorIs(t, attempt(t.Context(), d, r, "b", 1, nothing, late), renewer.ErrNoRecord)
		require.Empty(t, d.affectedBy(t, "b"))
	})
}
