package once_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// stuck is a recorder whose first question by a holder gets its answer when the lock is lost.
type stuck struct {
	once.Recorder
	lose   func()
	answer func(context.Context) error
}

func (s *stuck) Prepare(ctx context.Context, term renewer.Term) (renewer.Seen, error) {
	if s.lose == nil {
		return s.Recorder.Prepare(ctx, term)
	}
	s.lose()
	s.lose = nil
	<-ctx.Done()
	return renewer.Seen{}, s.answer(ctx)
}

// A lock that is lost before the function has begun costs a turn. Its end is not the caller's.
func TestLockLostBeforeTheAttempt(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(context.Context) error{
		"ended":     func(ctx context.Context) error { return ctx.Err() },
		"no answer": func(context.Context) error { return renewer.ErrUnavailable },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				r := &stuck{Recorder: k, lose: func() { s.Delete("a") }, answer: answer}
				got, err := once.Do(t.Context(), k, "a",
					func(ctx context.Context) (int, error) {
						return once.Current(ctx).Number, nil
					}, once.RecordIn(r))
				require.NoError(t, err)
				require.Equal(t, 1, got)

				r.lose = func() { s.Delete("b") }
				_, err = once.Do(t.Context(), k, "b", never(t), once.RecordIn(r), once.Wait(0))
				require.Error(t, err)
				require.NotErrorIs(t, err, context.Canceled)
			})
		})
	}
}
