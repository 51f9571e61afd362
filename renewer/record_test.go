package renewer_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

func record(fence, seq int64, data string) renewer.Record {
	return renewer.Record{Name: "a", Fence: fence, Seq: seq, Data: data, TTL: time.Hour}
}

func TestRecords(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		l := acquire(t, k, "a")
		seen, err := k.Read(t.Context(), "a")
		require.NoError(t, err)
		require.Equal(t, renewer.Seen{Status: renewer.StatusHeld, Now: time.Now()}, seen)
		require.ErrorIs(t, k.Write(t.Context(), record(l.Fence(), 1, "x")), renewer.ErrNoRecord,
			"not prepared, no term")
		_, err = k.Prepare(t.Context(), renewer.Term{Name: "a", Fence: l.Fence(), TTL: time.Hour})
		require.NoError(t, err)
		require.NoError(t, k.Write(t.Context(), record(l.Fence(), 1, "x")))
		require.NoError(t, k.Write(t.Context(), record(l.Fence(), 1, "x")), "again")
		require.ErrorIs(t, k.Write(t.Context(), record(l.Fence(), 1, "y")), renewer.ErrConfig)
		first := l.Fence()
		require.NoError(t, l.Release(t.Context()))

		l = acquire(t, k, "a")
		seen, err = k.Prepare(t.Context(),
			renewer.Term{Name: "a", Fence: l.Fence(), TTL: time.Hour})
		require.NoError(t, err)
		require.Equal(t, renewer.Seen{
			Status: renewer.StatusHeld, Fence: first, Seq: 1, Data: "x",
			TTL: time.Hour, Now: time.Now(),
		}, seen)
		err = k.Write(t.Context(), record(first, 2, "late"))
		require.ErrorIs(t, err, renewer.ErrLost)
		var lost *renewer.LostError
		require.ErrorAs(t, err, &lost)
		assert.Equal(t, renewer.ReasonTaken, lost.Reason)
		assert.Equal(t, first, lost.Fence)
		assert.Equal(t, "a", lost.Name)
		assert.EqualError(t, err,
			`lockbeat: lease on "a" lost: the store says that it is not ours any more: a later `+
				`holder has prepared to write its record`)
		_, err = k.Prepare(t.Context(), renewer.Term{Name: "a", Fence: first, TTL: time.Hour})
		require.ErrorIs(t, err, renewer.ErrLost)
		last := l.Fence()
		require.NoError(t, k.Write(t.Context(),
			renewer.Record{Name: "a", Fence: last, Seq: 1, Erase: true}), "which needs no TTL")
		require.Empty(t, s.RecordOf("a"))
		require.ErrorIs(t, k.Write(t.Context(), record(last, 2, "x")), renewer.ErrNoRecord)
		require.NoError(t, l.Release(t.Context()))
	})
}

// writers are the two questions that write, each as its error.
func writers(
	k *renewer.Keeper,
) map[script.Op]func(ctx context.Context, name string, ttl time.Duration) error {
	return map[script.Op]func(context.Context, string, time.Duration) error{
		script.Prepare: func(ctx context.Context, name string, ttl time.Duration) error {
			seen, err := k.Prepare(ctx, renewer.Term{Name: name, Fence: 1, TTL: ttl})
			if err != nil && seen != (renewer.Seen{}) {
				return errors.New("something was seen beside the error")
			}
			return err
		},
		script.Write: func(ctx context.Context, name string, ttl time.Duration) error {
			return k.Write(ctx, renewer.Record{Name: name, Fence: 1, Seq: 1, TTL: ttl})
		},
	}
}

func TestQuestionsAboutRecordsThatFail(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		for op, ask := range writers(k) {
			for _, name := range []string{"", strings.Repeat("n", renewer.MaxName+1)} {
				require.ErrorIs(t, ask(t.Context(), name, time.Hour), renewer.ErrName)
			}
			require.ErrorIs(t, ask(t.Context(), "a", time.Millisecond-1), renewer.ErrConfig)
			require.Empty(t, s.Calls(op), "the store was not asked")

			s.Script(op, script.Fail(errDown), script.Fail(renewer.ErrRejected), script.Fail(nil))
			err := ask(t.Context(), "a", time.Hour)
			require.ErrorIs(t, err, renewer.ErrUnavailable)
			require.ErrorIs(t, err, errDown)
			var e *renewer.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, "a", e.Name)
			assert.Contains(t, err.Error(), ` the record of "a": lock store unavailable`)
			require.ErrorIs(t, ask(t.Context(), "a", time.Hour), renewer.ErrRejected)
			require.ErrorIs(t, ask(t.Context(), "a", time.Hour), renewer.ErrUnavailable)

			s.Script(op, script.Hang(), script.Hang(), script.Hang())
			begun := time.Now()
			err = ask(t.Context(), "a", time.Hour)
			require.ErrorIs(t, err, renewer.ErrUnavailable)
			require.NotErrorIs(t, err, context.DeadlineExceeded, "which is not the caller's")
			require.Equal(t, config.RequestTimeout, time.Since(begun))

			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err = ask(ctx, "a", time.Hour)
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.NotErrorIs(t, err, renewer.ErrUnavailable)
			require.ErrorAs(t, err, &e)
			require.NoError(t, e.Err, "the kind says it all")
			cause, end := context.WithCancelCause(t.Context())
			end(errDown)
			err = ask(cause, "a", time.Hour)
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, errDown, "the cause")
		}
		require.NoError(t, k.Shutdown(t.Context()))
		for _, ask := range writers(k) {
			require.NotErrorIs(t, ask(t.Context(), "a", time.Hour), renewer.ErrShutdown)
		}
	})
}

// Only who has the lock prepares; any caller reads, and that changes nothing.
func TestAReadBeginsNoTerm(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		_, err := k.Prepare(t.Context(), renewer.Term{Name: "a", TTL: time.Hour})
		require.ErrorIs(t, err, renewer.ErrConfig)
		require.Empty(t, s.Calls(script.Prepare))
		_, err = k.Read(t.Context(), "")
		require.ErrorIs(t, err, renewer.ErrName)
		require.Empty(t, s.Calls(script.Read))

		_, err = k.Read(t.Context(), "a")
		require.NoError(t, err)
		require.ErrorIs(t, k.Write(t.Context(), record(1, 1, "x")), renewer.ErrNoRecord)
		s.Script(script.Read, script.Fail(errDown), script.Hang())
		_, err = k.Read(t.Context(), "a")
		require.ErrorIs(t, err, renewer.ErrUnavailable)
		require.ErrorIs(t, err, errDown)
		begun := time.Now()
		_, err = k.Read(t.Context(), "a")
		require.ErrorIs(t, err, renewer.ErrUnavailable)
		require.Equal(t, config.RequestTimeout, time.Since(begun))
	})
}

// odd is a store that gives another number of answers than it was asked for.
type odd struct {
	renewer.Recorder

	answers int
}

func (s odd) Prepare(context.Context, []renewer.Term) []renewer.Seen {
	return make([]renewer.Seen, s.answers)
}

func (s odd) Read(context.Context, []string) []renewer.Seen {
	return make([]renewer.Seen, s.answers)
}

func (s odd) Write(context.Context, []renewer.Record) []renewer.Answer {
	return make([]renewer.Answer, s.answers)
}

func TestStoresThatBreakTheContractOfRecords(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, s := range []renewer.Store{
			odd{script.New(), 0},
			odd{script.New(), 1},
			odd{script.New(), 2},
			struct{ renewer.Store }{script.New()},
		} {
			k, err := renewer.New(s, config)
			require.NoError(t, err)
			kind := renewer.ErrUnavailable
			if _, ok := s.(renewer.Recorder); ok {
				require.NoError(t, k.CheckRecords())
			} else {
				kind = renewer.ErrConfig
				require.ErrorIs(t, k.CheckRecords(), kind)
			}
			for _, ask := range writers(k) {
				require.ErrorIs(t, ask(t.Context(), "a", time.Hour), kind)
			}
			require.NoError(t, k.Shutdown(t.Context()))
		}
	})
}
