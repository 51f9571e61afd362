package once_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/engine"
	"github.com/lockbeat/lockbeat/lockmw/internal/records"
	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// ledger is a database with one effect a committed record.
type ledger struct {
	records.Records
	commits  int
	unbegun  atomic.Int64 // so many transactions can't be begun
	conflict atomic.Int64 // so many transactions are in conflict with others
	unheard  int          // so many commits answer that it is not known
	rollback int          // so many commits do not come about
	begin    func()
	before   func(store.Record)
}

var _ once.Transactional = (*ledger)(nil)

func (l *ledger) Transact(
	ctx context.Context, fn func(context.Context) (store.Record, error),
) error {
	if l.unbegun.Load() > 0 {
		l.unbegun.Add(-1)
		return &renewer.Error{Op: "begin", Kind: renewer.ErrUnavailable, Err: errDown}
	}
	if l.begin != nil {
		l.begin()
	}
	record, err := fn(ctx)
	if err != nil {
		return err
	}
	if l.before != nil {
		l.before(record)
	}
	if l.conflict.Load() > 0 {
		l.conflict.Add(-1)
		return &renewer.Error{Op: "commit", Kind: once.ErrConflict, Err: errDown}
	}
	answer := error(nil)
	if l.unheard > 0 {
		l.unheard--
		answer = &renewer.Error{Op: "commit", Kind: renewer.ErrUnavailable}
	}
	if l.rollback > 0 {
		l.rollback--
		return answer
	}
	if err := l.Write(context.WithoutCancel(ctx), record); err != nil {
		return err
	}
	l.commits++
	return answer
}

func inLedger(
	t *testing.T, f func(t *testing.T, s *script.Store, k *renewer.Keeper, l *ledger),
) {
	t.Helper()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		f(t, s, k, &ledger{Records: records.Of(keeper(t, s, "the database"))})
	})
}

// A commit whose answer is lost is looked up: what was committed stands, and
// what was not has failed, and is tried again.
func TestLostAnswersToCommits(t *testing.T) {
	t.Parallel()
	for name, rolledBack := range map[string]int{"committed": 0, "rolled back": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inLedger(t, func(t *testing.T, s *script.Store, k *renewer.Keeper, l *ledger) {
				l.unheard, l.rollback = 1, rolledBack
				ran := 0
				got, err := once.Do(t.Context(), k, "a", func(context.Context) (int, error) {
					ran++
					s.Script(script.Prepare, outage(3)...)
					return ran, nil
				}, once.RecordIn(l))
				require.NoError(t, err)
				require.Equal(t, 1+rolledBack, ran)
				require.Equal(t, ran, got)
				require.Equal(t, 1, l.commits)
			})
		})
	}
}

// What can't be found out for a whole TTL is told as such.
func TestUnknownCommit(t *testing.T) {
	t.Parallel()
	inLedger(t, func(t *testing.T, s *script.Store, k *renewer.Keeper, l *ledger) {
		l.unheard = 1
		_, err := once.Do(t.Context(), k, "a", func(context.Context) (int, error) {
			s.Default(script.Prepare, script.Fail(errDown))
			return 1, nil
		}, once.RecordIn(l))
		require.ErrorIs(t, err, once.ErrNotRecorded)
		require.ErrorIs(t, err, errDown)
	})
}

// A call that was overtaken before its commit gets the other's result, also if
// the answer to its own was lost.
func TestOvertakenBeforeTheCommit(t *testing.T) {
	t.Parallel()
	for name, unheard := range map[string]int{"refused": 0, "no answer": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inLedger(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper, l *ledger) {
				l.unheard, l.rollback = unheard, unheard
				l.before = func(mine store.Record) {
					l.before = nil
					fence := mine.Fence + 1
					_, err := l.Prepare(t.Context(),
						store.Term{Name: "a", Fence: fence, TTL: time.Hour})
					require.NoError(t, err)
					theirs := once.NewRecord("done", 2, store.Holder{}, "", `{"Pages":2}`)
					require.NoError(t, l.Write(t.Context(), store.Record{
						Name: "a", Fence: fence, Seq: 1, Data: theirs.Encode(), TTL: time.Hour,
					}))
				}
				got, err := once.Do(t.Context(), k, "a", answer(report{Pages: 1}),
					once.RecordIn(l), once.NoRetry())
				require.NoError(t, err)
				require.Equal(t, report{Pages: 2}, got)
				require.Zero(t, l.commits)
			})
		})
	}
}

// A record that lapses before the commit is not taken for one: the effect is
// not there.
func TestRecordLapsesBeforeTheCommit(t *testing.T) {
	t.Parallel()
	inLedger(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper, l *ledger) {
		l.before = func(store.Record) {
			l.before = nil
			elapse(2 * time.Minute)
		}
		got, err := once.Do(t.Context(), k, "a", answer(report{Pages: 1}), once.RecordIn(l),
			once.Keep(time.Minute))
		require.NoError(t, err)
		require.Equal(t, report{Pages: 1}, got)
		require.Equal(t, 1, l.commits)
	})
}

// Work whose transaction is in conflict with others is begun anew, as the same
// attempt, after a pause that grows. It is bounded, and leaves no record
// behind.
func TestConflicts(t *testing.T) {
	t.Parallel()
	inLedger(t, func(t *testing.T, s *script.Store, k *renewer.Keeper, l *ledger) {
		runs := 0
		work := func(ctx context.Context) (int, error) {
			runs++
			require.Equal(t, 1, once.Current(ctx).Number)
			return runs, nil
		}
		begun := time.Now()
		l.conflict.Store(10)
		got, err := once.Do(t.Context(), k, "a", work, once.RecordIn(l), once.MaxAttempts(1))
		require.NoError(t, err)
		require.Equal(t, 11, got)
		require.Equal(t, 1, l.commits)
		require.Greater(t, time.Since(begun), time.Second)
		require.Less(t, time.Since(begun), 10*time.Second)

		for _, row := range []struct {
			wait         time.Duration
			fewest, most int
		}{{0, 1, 1}, {time.Second, 3, 10}, {time.Hour, once.MaxConflicts, once.MaxConflicts}} {
			runs, begun = 0, time.Now()
			l.conflict.Store(1000)
			got, err = once.Do(t.Context(), k, "b", work, once.RecordIn(l), waiting(row.wait))
			require.ErrorIs(t, err, once.ErrConflict)
			require.ErrorIs(t, err, errDown)
			require.Zero(t, got)
			require.GreaterOrEqual(t, runs, row.fewest)
			require.LessOrEqual(t, runs, row.most)
			require.LessOrEqual(t, time.Since(begun), row.wait+500*time.Millisecond)
			require.Empty(t, s.RecordOf("b"), "no attempt is used up")
		}
	})
}

// The caller's end and the loss of the lock end the runs that follow a
// conflict.
func TestConflictsEndWithTheCallerAndTheLock(t *testing.T) {
	t.Parallel()
	inLedger(t, func(t *testing.T, s *script.Store, k *renewer.Keeper, l *ledger) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		l.conflict.Store(1000)
		_, err := once.Do(ctx, k, "a", answer(report{}), once.RecordIn(l))
		require.ErrorIs(t, err, once.ErrConflict)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Empty(t, s.RecordOf("a"))

		time.AfterFunc(time.Second, func() { s.Delete("a") })
		time.AfterFunc(10*time.Second, func() { l.conflict.Store(0) })
		got, err := once.Do(t.Context(), k, "a", func(ctx context.Context) (int, error) {
			return once.Current(ctx).Number, nil
		}, once.RecordIn(l), once.MaxAttempts(1))
		require.NoError(t, err)
		require.Equal(t, 1, got)
	})
}

// The conflict of an inner work's transaction is not the outer one's.
func TestAnInnerConflictIsNotTheOuters(t *testing.T) {
	t.Parallel()
	inLedger(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper, l *ledger) {
		runs := 0
		_, err := once.Do(t.Context(), k, "outer", func(ctx context.Context) (report, error) {
			runs++
			inner := &ledger{Records: l.Records}
			inner.conflict.Store(1)
			return once.Do(ctx, k, "inner", answer(report{}), once.RecordIn(inner), once.NoRetry())
		}, once.RecordIn(l))
		require.ErrorIs(t, err, once.ErrAttemptsExhausted)
		require.Equal(t, once.DefaultMaxAttempts, runs)
	})
}

// The lock's store need keep no records if another recorder does. That one
// must.
func TestRecordInAnotherKeeper(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
		locks := keeper(t, engine.Of(struct{ store.Store }{script.New()}), "here")
		for range 2 {
			got, err := once.Do(t.Context(), locks, "a", answer(report{Pages: 1}),
				once.RecordIn(records.Of(k)))
			require.NoError(t, err)
			require.Equal(t, report{Pages: 1}, got)
		}
		_, err := once.Do(t.Context(), locks, "a", never(t))
		require.ErrorIs(t, err, renewer.ErrConfig)
		require.ErrorContains(t, err, "store.Recorder")
		_, err = once.Do(t.Context(), k, "a", never(t), once.RecordIn(nil))
		require.ErrorIs(t, err, renewer.ErrConfig)
		require.ErrorContains(t, err, "RecordIn")
	})
}
