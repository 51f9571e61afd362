package records_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/engine"
	"github.com/lockbeat/lockbeat/lockmw/internal/records"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

var (
	config  = renewer.Config{TTL: renewer.DefaultTTL}
	errDown = errors.New("connection refused")
)

func inBubble(t *testing.T, s store.Store, f func(t *testing.T, k *renewer.Keeper)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		k, err := renewer.New(engine.Of(s), config)
		require.NoError(t, err)
		defer func() { require.NoError(t, k.Shutdown(t.Context())) }()
		f(t, k)
	})
}

func record(fence, seq int64, data string) store.Record {
	return store.Record{Name: "a", Fence: fence, Seq: seq, Data: data, TTL: time.Hour}
}

func TestRecords(t *testing.T) {
	t.Parallel()
	s := script.New()
	inBubble(t, s, func(t *testing.T, keeper *renewer.Keeper) {
		k := records.Of(keeper)
		l := acquire(t, keeper)
		seen, err := k.Read(t.Context(), "a")
		require.NoError(t, err)
		require.Equal(t, store.Seen{Status: store.StatusHeld, Now: time.Now()}, seen)
		require.ErrorIs(t, k.Write(t.Context(), record(l.Fence(), 1, "x")), store.ErrNoRecord,
			"not prepared, no term")
		_, err = k.Prepare(t.Context(), store.Term{Name: "a", Fence: l.Fence(), TTL: time.Hour})
		require.NoError(t, err)
		require.NoError(t, k.Write(t.Context(), record(l.Fence(), 1, "x")))
		require.NoError(t, k.Write(t.Context(), record(l.Fence(), 1, "x")), "again")
		require.ErrorIs(t, k.Write(t.Context(), record(l.Fence(), 1, "y")), renewer.ErrConfig)
		first := l.Fence()
		require.NoError(t, l.Release(t.Context()))

		l = acquire(t, keeper)
		seen, err = k.Prepare(t.Context(),
			store.Term{Name: "a", Fence: l.Fence(), TTL: time.Hour})
		require.NoError(t, err)
		require.Equal(t, store.Seen{
			Status: store.StatusHeld, Fence: first, Seq: 1, Data: "x",
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
		_, err = k.Prepare(t.Context(), store.Term{Name: "a", Fence: first, TTL: time.Hour})
		require.ErrorIs(t, err, renewer.ErrLost)
		last := l.Fence()
		require.NoError(t, k.Write(t.Context(),
			store.Record{Name: "a", Fence: last, Seq: 1, Erase: true}), "which needs no TTL")
		require.Empty(t, s.RecordOf("a"))
		require.ErrorIs(t, k.Write(t.Context(), record(last, 2, "x")), store.ErrNoRecord)
		require.NoError(t, l.Release(t.Context()))
	})
}

func acquire(t *testing.T, k *renewer.Keeper) *renewer.Lease {
	t.Helper()
	l, err := k.Acquire(t.Context(), renewer.Request{Name: "a"})
	require.NoError(t, err)
	return l
}

// questions are those that can be asked, each as its error.
func questions(r records.Records) map[script.Op]func(context.Context) error {
	return map[script.Op]func(context.Context) error{
		script.Prepare: func(ctx context.Context) error {
			_, err := r.Prepare(ctx, store.Term{Name: "a", Fence: 1, TTL: time.Hour})
			return err
		},
		script.Read: func(ctx context.Context) error {
			_, err := r.Read(ctx, "a")
			return err
		},
		script.Write: func(ctx context.Context) error {
			return r.Write(ctx, record(1, 1, "x"))
		},
	}
}

func TestQuestionsAboutRecordsThatFail(t *testing.T) {
	t.Parallel()
	s := script.New()
	inBubble(t, s, func(t *testing.T, k *renewer.Keeper) {
		for op, ask := range questions(records.Of(k)) {
			s.Script(op, script.Fail(errDown), script.Fail(renewer.ErrRejected), script.Fail(nil))
			err := ask(t.Context())
			require.ErrorIs(t, err, renewer.ErrUnavailable)
			require.ErrorIs(t, err, errDown)
			var e *renewer.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, "a", e.Name)
			assert.Contains(t, err.Error(), ` the record of "a": lock store unavailable`)
			require.ErrorIs(t, ask(t.Context()), renewer.ErrRejected)
			require.ErrorIs(t, ask(t.Context()), renewer.ErrUnavailable)

			s.Script(op, script.Hang(), script.Hang(), script.Hang())
			begun := time.Now()
			err = ask(t.Context())
			require.ErrorIs(t, err, renewer.ErrUnavailable)
			require.NotErrorIs(t, err, context.DeadlineExceeded, "which is not the caller's")
			require.Equal(t, k.Config().RequestTimeout, time.Since(begun))

			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err = ask(ctx)
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.NotErrorIs(t, err, renewer.ErrUnavailable)
			require.ErrorAs(t, err, &e)
			require.NoError(t, e.Err, "the kind says it all")
			cause, end := context.WithCancelCause(t.Context())
			end(errDown)
			err = ask(cause)
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, errDown, "the cause")
		}
		require.NoError(t, k.Shutdown(t.Context()))
		for _, ask := range questions(records.Of(k)) {
			require.NotErrorIs(t, ask(t.Context()), renewer.ErrShutdown)
		}
	})
}

// odd is a store that gives another number of answers than it was asked for.
type odd struct {
	store.Recorder

	answers int
}

func (s odd) Prepare(context.Context, []store.Term) []store.Seen {
	return make([]store.Seen, s.answers)
}

func (s odd) Read(context.Context, []string) []store.Seen {
	return make([]store.Seen, s.answers)
}

func (s odd) Write(context.Context, []store.Record) []store.Answer {
	return make([]store.Answer, s.answers)
}

func TestStoresThatKeepNoRecordsOrBreakTheContract(t *testing.T) {
	t.Parallel()
	for _, s := range []store.Store{
		odd{script.New(), 0},
		odd{script.New(), 1},
		odd{script.New(), 2},
		struct{ store.Store }{script.New()},
	} {
		inBubble(t, s, func(t *testing.T, k *renewer.Keeper) {
			r, kind := records.Of(k), renewer.ErrUnavailable
			require.Zero(t, r.MaxRecord())
			if _, ok := s.(store.Recorder); ok {
				require.NoError(t, r.Check())
			} else {
				kind = renewer.ErrConfig
				require.ErrorIs(t, r.Check(), kind)
			}
			for _, ask := range questions(r) {
				require.ErrorIs(t, ask(t.Context()), kind)
			}
		})
	}
}
