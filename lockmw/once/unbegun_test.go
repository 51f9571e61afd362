package once_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/records"
	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// stuck is a recorder whose first question by a holder gets no answer before
// the lock is lost.
type stuck struct {
	once.Recorder
	lose func()
}

func (s *stuck) Prepare(ctx context.Context, term store.Term) (store.Seen, error) {
	if s.lose == nil {
		return s.Recorder.Prepare(ctx, term)
	}
	s.lose()
	s.lose = nil
	elapse(renewer.DefaultTTL) // by when a heartbeat has found the loss
	return store.Seen{}, renewer.ErrUnavailable
}

// A lock that is lost before the function has begun costs a turn. Its end is
// not the caller's.
func TestLockLostBeforeTheAttempt(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		r := &stuck{Recorder: records.Of(k), lose: func() { s.Delete("a") }}
		got, err := once.Do(t.Context(), k, "a", func(ctx context.Context) (int, error) {
			return once.Current(ctx).Number, nil
		}, once.RecordIn(r))
		require.NoError(t, err)
		require.Equal(t, 1, got)

		r.lose = func() { s.Delete("b") }
		_, err = once.Do(t.Context(), k, "b", never(t), once.RecordIn(r), lockmw.Refuse())
		require.Error(t, err)
		require.NotErrorIs(t, err, context.Canceled)
	})
}

// leaving is a recorder that refuses a holder, whose caller leaves at that
// moment.
type leaving struct {
	once.Recorder
	leave func()
}

func (l leaving) Prepare(_ context.Context, term store.Term) (store.Seen, error) {
	l.leave()
	return store.Seen{}, &renewer.LostError{Name: term.Name, Reason: renewer.ReasonTaken}
}

// A caller that leaves when it would have asked again is told both.
func TestTheCallerLeavesWhenItsLockIsLost(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		_, err := once.Do(ctx, k, "a", never(t), once.RecordIn(leaving{records.Of(k), leave}))
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, renewer.ErrLost)
	})
}

// A transaction that could not be begun is no attempt: it is asked for again,
// and leaves no record.
func TestTransactionsThatWereNotBegunAreNoAttempts(t *testing.T) {
	t.Parallel()
	inLedger(t, func(t *testing.T, s *script.Store, k *renewer.Keeper, l *ledger) {
		work := func(ctx context.Context) (int, error) { return once.Current(ctx).Number, nil }
		l.unbegun.Store(20)
		got, err := once.Do(t.Context(), k, "a", work, once.RecordIn(l), once.MaxAttempts(1))
		require.NoError(t, err)
		require.Equal(t, 1, got)
		require.Zero(t, l.unbegun.Load())

		l.unbegun.Store(math.MaxInt64)
		for range 3 { // by callers who don't wait for long, or leave
			_, err = once.Do(t.Context(), k, "b", never(t), once.RecordIn(l), once.MaxAttempts(1),
				lockmw.Wait(time.Second))
			require.ErrorIs(t, err, errDown)
			require.NotErrorIs(t, err, once.ErrAttemptsExhausted)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err = once.Do(ctx, k, "b", never(t), once.RecordIn(l), once.MaxAttempts(1))
			cancel()
			require.Error(t, err)
			require.NotErrorIs(t, err, once.ErrAttemptsExhausted)
			require.Empty(t, s.RecordOf("b"))
		}
		l.unbegun.Store(0)
		got, err = once.Do(t.Context(), k, "b", work, once.RecordIn(l))
		require.NoError(t, err)
		require.Equal(t, 1, got)
	})
}
