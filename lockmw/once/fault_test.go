package once_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/records"
	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

var errDown = errors.New("connection refused")

// outage is n answers that do not come.
func outage(n int) []script.Step {
	steps := make([]script.Step, n)
	for i := range steps {
		steps[i] = script.Fail(errDown)
	}
	return steps
}

// plain is a recorder that leaves first records to Write.
type plain struct{ once.Recorder }

func (r plain) Prepare(ctx context.Context, term store.Term) (store.Seen, error) {
	term.Data = ""
	return r.Recorder.Prepare(ctx, term)
}

// Questions without an answer are repeated; the function runs once for all
// that.
func TestUnansweredQuestionsAreRepeated(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(s *script.Store, k *renewer.Keeper) once.Option{
		"the acquire": func(s *script.Store, k *renewer.Keeper) once.Option {
			s.Script(script.Acquire, outage(5)...)
			return once.RecordIn(records.Of(k))
		},
		"the acquire, granted": func(s *script.Store, k *renewer.Keeper) once.Option {
			s.Script(script.Acquire, script.Pass().Broken(errDown), script.Pass().Broken(errDown))
			return once.RecordIn(records.Of(k))
		},
		"the glance": func(s *script.Store, k *renewer.Keeper) once.Option {
			s.Script(script.Read, outage(1)...)
			return once.RecordIn(records.Of(k))
		},
		"the look": func(s *script.Store, k *renewer.Keeper) once.Option {
			s.Script(script.Prepare, outage(5)...)
			return once.RecordIn(records.Of(k))
		},
		"the look, written": func(s *script.Store, k *renewer.Keeper) once.Option {
			s.Script(script.Prepare, script.Pass().Broken(errDown), script.Pass().Broken(errDown))
			return once.RecordIn(records.Of(k))
		},
		"the beginning": func(s *script.Store, k *renewer.Keeper) once.Option {
			s.Script(script.Write, outage(5)...)
			return once.RecordIn(plain{records.Of(k)})
		},
		"beginning, written": func(s *script.Store, k *renewer.Keeper) once.Option {
			s.Script(script.Write, script.Pass().Broken(errDown), script.Pass().Broken(errDown))
			return once.RecordIn(plain{records.Of(k)})
		},
		"the end": func(s *script.Store, k *renewer.Keeper) once.Option {
			s.Script(script.Write, outage(20)...)
			return once.RecordIn(records.Of(k))
		},
		"the end, written": func(s *script.Store, k *renewer.Keeper) once.Option {
			s.Script(script.Write, script.Pass().Lost(), script.Pass().Broken(errDown))
			return once.RecordIn(records.Of(k))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				recorder := prepare(s, k)
				ran := 0
				got, err := once.Do(t.Context(), k, "a", func(ctx context.Context) (report, error) {
					ran++
					assert.Equal(t, 1, once.Current(ctx).Number)
					return report{Pages: 5}, nil
				}, recorder)
				require.NoError(t, err)
				require.Equal(t, report{Pages: 5}, got)
				require.Equal(t, 1, ran)
				for _, op := range []script.Op{
					script.Acquire, script.Read, script.Prepare, script.Write,
				} {
					require.Zero(t, s.Left(op))
				}
				got, err = once.Do(t.Context(), k, "a", never(t))
				require.NoError(t, err)
				require.Equal(t, report{Pages: 5}, got)
			})
		})
	}
}

// What the store does not answer for as long as the caller waits is
// told, and the function has not run.
func TestStoreDown(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(s *script.Store, k *renewer.Keeper) once.Option{
		"locks": func(s *script.Store, k *renewer.Keeper) once.Option {
			s.Default(script.Read, script.Fail(errDown))
			s.Default(script.Acquire, script.Fail(errDown))
			return once.RecordIn(records.Of(k))
		},
		"records": func(s *script.Store, k *renewer.Keeper) once.Option {
			s.Default(script.Read, script.Fail(errDown))
			s.Default(script.Prepare, script.Fail(errDown))
			return once.RecordIn(records.Of(k))
		},
		"beginning": func(s *script.Store, k *renewer.Keeper) once.Option {
			s.Default(script.Read, script.Fail(errDown))
			s.Default(script.Write, script.Fail(errDown))
			return once.RecordIn(plain{records.Of(k)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				recorder := prepare(s, k)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := once.Do(ctx, k, "a", never(t), recorder)
				require.Error(t, err)
				require.Error(t, ctx.Err())
				for _, wait := range []time.Duration{0, time.Minute} {
					begun := time.Now()
					_, err := once.Do(t.Context(), k, "a", never(t), recorder, waiting(wait))
					require.ErrorIs(t, err, renewer.ErrUnavailable)
					require.ErrorIs(t, err, errDown)
					if name == "locks" { // the outage began a second ago
						wait = min(wait, k.Config().FailOver-time.Second)
					}
					require.InDelta(t, wait, time.Since(begun), float64(time.Second))
				}
			})
		})
	}
}

// If the end can't be told for a whole TTL, the caller hears so beside the
// result.
func TestNotRecorded(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		begun := time.Now()
		s.Default(script.Write, script.Fail(errDown))
		got, err := once.Do(t.Context(), k, "a", answer(report{Pages: 5}))
		require.ErrorIs(t, err, once.ErrNotRecorded)
		require.ErrorIs(t, err, errDown)
		require.Equal(t, report{Pages: 5}, got)
		require.InDelta(t, renewer.DefaultTTL, time.Since(begun), float64(time.Second))

		s.Default(script.Write, script.Pass())
		got, err = once.Do(t.Context(), k, "a", func(ctx context.Context) (report, error) {
			return report{Pages: once.Current(ctx).Number}, nil
		})
		require.NoError(t, err)
		require.Equal(t, 2, got.Pages, "it is done again")
	})
}

// The lock is lost and no caller takes over: the attempt's outcome counts.
func TestALostLockDoesNotUndoTheWork(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		got, err := once.Do(t.Context(), k, "a", func(ctx context.Context) (report, error) {
			s.Delete("a")
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), renewer.ErrLost)
			return report{Pages: 5}, nil
		})
		require.NoError(t, err, "a finished result stands")
		require.Equal(t, report{Pages: 5}, got)
		got, err = once.Do(t.Context(), k, "a", never(t))
		require.NoError(t, err)
		require.Equal(t, report{Pages: 5}, got)
	})
}

// The lock is lost and another caller takes over: a late "done" is refused,
// and both get the successor's result.
func TestALateDoneIsRefused(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		other := keeper(t, s, "there")
		lost := make(chan struct{})
		second := make(chan struct{})
		finished := make(chan report, 1)
		go func() {
			<-lost
			got, err := once.Do(t.Context(), other, "a", func(ctx context.Context) (report, error) {
				close(second)
				elapse(time.Hour)
				return report{once.Current(ctx).Number, "there"}, nil
			})
			assert.NoError(t, err)
			finished <- got
		}()
		begun := time.Now()
		got, err := once.Do(t.Context(), k, "a", func(ctx context.Context) (report, error) {
			s.Delete("a")
			close(lost)
			<-second
			return report{1, "here"}, nil
		})
		require.NoError(t, err)
		want := report{2, "there"}
		require.Equal(t, want, got, "its own result is dropped")
		require.Equal(t, want, <-finished)
		require.Equal(t, time.Hour, time.Since(begun))
		require.Contains(t, s.RecordOf("a"), "once1 done 2 ")
	})
}

// As above, but the caller does not wait: it hears that its lock was lost.
func TestALateDoneWithoutWaiting(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		other := keeper(t, s, "there")
		got, err := once.Do(t.Context(), k, "a", func(ctx context.Context) (report, error) {
			s.Delete("a")
			begun := make(chan struct{})
			go func() {
				_, err := once.Do(t.Context(), other, "a", func(context.Context) (report, error) {
					close(begun)
					elapse(time.Hour)
					return report{}, nil
				})
				assert.NoError(t, err)
			}()
			<-begun
			return report{1, "here"}, nil
		}, lockmw.Refuse())
		require.ErrorIs(t, err, renewer.ErrLost)
		require.ErrorIs(t, err, renewer.ErrBusy)
		require.Zero(t, got)
		elapse(2 * time.Hour)
	})
}

// An attempt that fails for the sake of a loss makes its caller a waiter again,
// without a pause.
func TestALossIsNoReasonToPause(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		begun := time.Now()
		var ended time.Time
		got, err := once.Do(t.Context(), k, "a", func(ctx context.Context) (report, error) {
			if n := once.Current(ctx).Number; n > 1 {
				assert.Zero(t, time.Since(ended))
				return report{Pages: n}, nil
			}
			s.Delete("a")
			<-ctx.Done()
			ended = time.Now()
			return report{}, context.Cause(ctx)
		}, once.Retry(time.Hour, time.Hour))
		require.NoError(t, err)
		require.Equal(t, 2, got.Pages)
		require.Less(t, time.Since(begun), time.Minute)
	})
}

// On its last attempt a caller is overtaken by one who allows more:
// that one's result is everybody's.
func TestTheLastAttemptIsOvertaken(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]error{
		"exhausted": errOperation,
		"given up":  once.Permanent(errOperation),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				other := keeper(t, s, "there")
				got, err := once.Do(t.Context(), k, "a", func(ctx context.Context) (report, error) {
					s.Delete("a")
					begun := make(chan struct{})
					go func() {
						_, err := once.Do(t.Context(), other, "a",
							func(context.Context) (report, error) {
								close(begun)
								elapse(time.Hour)
								return report{2, "there"}, nil
							})
						assert.NoError(t, err)
					}()
					<-begun
					return report{}, failure
				}, once.MaxAttempts(1))
				require.NoError(t, err)
				require.Equal(t, report{2, "there"}, got)
			})
		})
	}
}

// An attempt that takes longer than Keep is on record all the same:
// the lock has been its own all the time.
func TestAnAttemptLongerThanKeep(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		_, err := once.Do(t.Context(), k, "a", func(context.Context) (report, error) {
			elapse(time.Hour)
			return report{Pages: 5}, nil
		}, once.Keep(time.Minute))
		require.NoError(t, err)
		got, err := once.Do(t.Context(), k, "a", never(t))
		require.NoError(t, err)
		require.Equal(t, report{Pages: 5}, got)
		elapse(time.Minute)
		require.Empty(t, s.RecordOf("a"))
	})
}

// The server has lost its data, the lock with it: nothing is said in
// a term that is not there any more.
func TestAServerThatForgets(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Script(script.Write, script.Gone())
		got, err := once.Do(t.Context(), k, "a", func(ctx context.Context) (report, error) {
			s.Delete("a")
			<-ctx.Done()
			return report{Pages: 5}, nil
		})
		require.ErrorIs(t, err, once.ErrNotRecorded)
		require.ErrorIs(t, err, store.ErrNoRecord)
		require.ErrorIs(t, err, renewer.ErrLost)
		require.Equal(t, report{Pages: 5}, got)
		require.Empty(t, s.RecordOf("a"))
	})
}

// Between the lock and the record another caller has had a turn: the
// function has not run, and the caller begins again.
func TestOvertakenBeforeTheBeginning(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(s *script.Store){
		"at the look": func(s *script.Store) {
			s.Script(script.Prepare, script.Taken(store.Holder{}, 0))
		},
		"at the write": func(s *script.Store) {
			s.Script(script.Write, script.Taken(store.Holder{}, 0))
		},
		"by a lapse": func(s *script.Store) {
			s.Script(script.Write, script.Gone())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				recorder := once.RecordIn(plain{records.Of(k)})
				prepare(s)
				begun := time.Now()
				_, err := once.Do(t.Context(), k, "a", never(t), recorder, lockmw.Refuse())
				require.Error(t, err)
				require.Zero(t, time.Since(begun))

				prepare(s)
				_, err = once.Do(t.Context(), k, "a", func(ctx context.Context) (report, error) {
					assert.Equal(t, 1, once.Current(ctx).Number)
					return report{}, nil
				}, recorder, once.Retry(2*time.Second, time.Minute))
				require.NoError(t, err)
				require.GreaterOrEqual(t, time.Since(begun), time.Second, "not a busy loop")
			})
		})
	}
}

// Of a keeper that is shut down a caller hears so, unless the work is decided.
func TestShutdown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := script.New()
		k, err := renewer.New(s, config)
		require.NoError(t, err)
		_, err = once.Do(t.Context(), k, "done", answer(report{Pages: 5}))
		require.NoError(t, err)
		require.NoError(t, k.Shutdown(t.Context()))
		_, err = once.Do(t.Context(), k, "a", never(t))
		require.ErrorIs(t, err, renewer.ErrShutdown)
		got, err := once.Do(t.Context(), k, "done", never(t))
		require.NoError(t, err)
		require.Equal(t, 5, got.Pages)
	})
}
