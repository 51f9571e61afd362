package renewer_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// logger writes all to the book.
func (b *logbook) logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// inSink runs f with a keeper that has an Observer beside its Log, if o is not
// nil.
func inSink(
	t *testing.T, o renewer.Observer, f func(*testing.T, *script.Store, *renewer.Keeper, *logbook),
) {
	t.Helper()
	b := new(logbook)
	cfg := config
	cfg.Log, cfg.Observer = b.logger(), o
	inBubble(t, cfg, func(t *testing.T, s *script.Store, k *renewer.Keeper) { f(t, s, k, b) })
}

// loseLock acquires a lock, and has the store say that it is another's.
func loseLock(t *testing.T, s *script.Store, k *renewer.Keeper, name string) {
	t.Helper()
	s.Script(script.Renew, script.Gone())
	l := acquire(t, k, name)
	<-l.Context().Done()
	require.ErrorIs(t, l.Release(t.Context()), renewer.ErrLost)
	synctest.Wait()
}

// What happens every day is written nowhere unasked, at no level.
func TestAQuietProgramPrintsNothing(t *testing.T) {
	t.Parallel()
	inSink(t, nil, func(t *testing.T, _ *script.Store, k *renewer.Keeper, b *logbook) {
		l := acquire(t, k, "a")
		_, err := k.Acquire(t.Context(), renewer.Request{Name: "a", Try: true})
		require.ErrorIs(t, err, renewer.ErrBusy)
		waiting := waits(t.Context(), k)
		waitFor(time.Hour) // many heartbeats
		require.NoError(t, l.Release(t.Context()))
		require.NoError(t, <-waiting)
		k.Observer().Ran(t.Context(), renewer.Run{Job: "report", Outcome: renewer.OutcomeRan})
		k.Observer().Ran(t.Context(), renewer.Run{
			Job: "pay", Outcome: renewer.OutcomeRan, Err: errDown, // which its caller gets
		})
		k.Observer().StillRuns(t.Context(), renewer.StillRuns{Name: "a", Held: time.Hour})
		k.Observer().TasksInLine(renewer.TasksInLine{Name: "a", Tasks: 7, Change: 7})
		synctest.Wait()
		require.NoError(t, k.Shutdown(t.Context()))
		require.Empty(t, b.String())
	})
}

// With no Observer, or with one that does not log, faults and losses are told
// all the same: of each name, once a minute.
func TestFaultsAndLossesAreToldWithoutALogObserver(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]renewer.Observer{
		"none": nil, "another": renewer.Observers(renewer.NopObserver{}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inSink(t, o, func(t *testing.T, s *script.Store, k *renewer.Keeper, b *logbook) {
				tell := func() {
					for range 3 { // 10 s
						for _, lock := range []string{"account:42", "account:43"} {
							loseLock(t, s, k, lock)
							k.Observer().Fault(renewer.Fault{
								Doing: "record an answer", Name: lock, Err: errDown,
							})
							k.Observer().Unlocked(t.Context(),
								renewer.Unlocked{Name: lock, Err: errDown})
							waitFor(time.Second) // lest a storm is thinned out
						}
						k.Observer().Fault(renewer.Fault{Doing: "serve HTTP", Err: renewer.ErrConfig})
						k.Observer().Ran(t.Context(), renewer.Run{
							Job: "report", Outcome: renewer.OutcomeMissed, DueBy: time.Now(),
						})
					}
				}
				told := func(times int) {
					for msg, names := range map[string]int{
						"lease lost": 2, "trouble with locks": 2, "operation runs without its lock": 2,
						"locks are set up wrongly": 1, "run of a job": 1,
					} {
						require.Len(t, b.lines(t, msg), names*times, msg)
					}
					require.NotContains(t, b.String(), "account", "the name is shown as its hash")
					require.Equal(t, hashOfAccount, b.lines(t, "lease lost")[0]["lock_hash"])
				}
				tell()
				told(1)
				waitFor(time.Minute)
				tell()
				told(2)
			})
		})
	}
}

// An operation that does not end when it is told of a loss is the other half of
// that.
func TestAnOperationThatRunsOnIsToldWithoutAnObserver(t *testing.T) {
	t.Parallel()
	inSink(t, nil, func(t *testing.T, s *script.Store, k *renewer.Keeper, b *logbook) {
		s.Script(script.Renew, script.Gone())
		l := acquire(t, k, "a")
		<-l.Context().Done()
		waitFor(time.Hour)
		require.Error(t, l.Release(t.Context()))
		require.Len(t, b.lines(t, "operation runs on when others can have the lock"), 1)
		require.Len(t, b.lines(t, "lease lost"), 1)
	})
}

// A call that gives way to a newer one has lost nothing.
func TestAReplacedCallIsNoLossInTheLog(t *testing.T) {
	t.Parallel()
	inSink(t, nil, func(t *testing.T, _ *script.Store, k *renewer.Keeper, b *logbook) {
		k.Observer().Lost(t.Context(), renewer.Lost{
			Name: "a", Err: &renewer.LostError{Name: "a", Reason: renewer.ReasonReplaced},
		})
		synctest.Wait()
		require.Empty(t, b.String())
	})
}

// Who logs everything hears of nothing twice.
func TestALogObserverTellsAloneWhatItTells(t *testing.T) {
	t.Parallel()
	other := new(logbook)
	for _, o := range []renewer.Observer{
		renewer.NewLogObserver(other.logger()),
		renewer.Observers(renewer.NopObserver{}, renewer.NewLogObserver(other.logger()), nil),
	} {
		inSink(t, o, func(t *testing.T, s *script.Store, k *renewer.Keeper, b *logbook) {
			loseLock(t, s, k, "a")
			k.Observer().Fault(renewer.Fault{Doing: "watch", Err: errDown})
			require.Empty(t, b.String())
		})
	}
	require.Len(t, other.lines(t, "lease lost"), 2)
	require.Len(t, other.lines(t, "trouble with locks"), 2)
}

// stuck is a log whose reader does not read.
type stuck struct {
	slog.Handler
	free chan struct{}
}

func (s stuck) Handle(context.Context, slog.Record) error {
	<-s.free
	return nil
}

// A log that blocks keeps no lease from ending in time.
func TestALogThatBlocksDelaysNoLoss(t *testing.T) {
	t.Parallel()
	cfg := config
	synctest.Test(t, func(t *testing.T) {
		log := stuck{slog.NewTextHandler(new(logbook), nil), make(chan struct{})}
		cfg.Log = slog.New(log)
		s := script.New()
		k, err := renewer.New(s, cfg)
		require.NoError(t, err)
		s.Default(script.Renew, script.Fail(errDown))
		for i := range 3 {
			begun := time.Now()
			l := acquire(t, k, fmt.Sprint("lock ", i))
			<-l.Context().Done()
			require.InDelta(t, goodFor, time.Since(begun), float64(rounding))
			require.Error(t, l.Release(t.Context()))
		}
		close(log.free)
		require.NoError(t, k.Shutdown(t.Context()))
	})
}

// Names are without number, and lines in an outage as many: the log gets some
// of them, of each kind, and memory does not grow.
func TestTheLogGetsAFewOfVeryManyLosses(t *testing.T) {
	t.Parallel()
	inSink(t, nil, func(t *testing.T, _ *script.Store, k *renewer.Keeper, b *logbook) {
		lose := func() {
			for i := range 10_000 {
				name := fmt.Sprint("lock ", i)
				k.Observer().Lost(t.Context(), renewer.Lost{
					Name: name, Err: &renewer.LostError{Name: name, Reason: renewer.ReasonExpired},
				})
			}
			synctest.Wait()
		}
		lose()
		k.Observer().Fault(renewer.Fault{Doing: "watch", Err: errDown})
		require.Len(t, b.lines(t, "lease lost"), renewer.MostTold)
		require.Len(t, b.lines(t, "trouble with locks"), 1)
		waitFor(time.Minute)
		lose()
		require.Len(t, b.lines(t, "lease lost"), 2*renewer.MostTold)
	})
}

// The log stands beside the Observer: one in its place costs a lone caller
// allocations.
//
//nolint:paralleltest // it counts allocations
func TestTheLogCostsALoneCallerNothing(t *testing.T) {
	cycle := func(cfg renewer.Config) float64 {
		k, err := renewer.New(memory.New(), cfg)
		require.NoError(t, err)
		defer func() { require.NoError(t, k.Shutdown(t.Context())) }()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		return testing.AllocsPerRun(100, func() {
			l, err := k.Acquire(ctx, renewer.Request{Name: "a"})
			if err == nil {
				l.Context()
				err = l.Release(ctx)
			}
			assert.NoError(t, err)
		})
	}
	alone := cycle(renewer.Config{})
	require.InDelta(t, alone, cycle(renewer.Config{Log: renewer.Silent}), 0)
	require.Less(t, alone, cycle(renewer.Config{Observer: renewer.NopObserver{}}), "as an Observer")
}

func TestTheDefaultLog(t *testing.T) {
	t.Parallel()
	for log, want := range map[*slog.Logger]*slog.Logger{
		nil: slog.Default(), renewer.Silent: renewer.Silent,
	} {
		k, err := renewer.New(memory.New(), renewer.Config{Log: log})
		require.NoError(t, err)
		require.Same(t, want, k.Config().Log)
		require.NoError(t, k.Shutdown(t.Context()))
	}
}
