package cronmw

import (
	"context"
	"errors"
	"log/slog"

	"github.com/lockbeat/lockbeat/lockmw/cronmw/internal/ticks"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// LogTicks returns a function for [New] that logs: runs and skips at level Debug; missed ticks,
// runs that were cut and may be taken over, conflicts, and a record of a tick to come at Warn;
// other errors at Error. A nil logger is slog.Default().
func LogTicks(l *slog.Logger) func(context.Context, Tick) {
	if l == nil {
		l = slog.Default()
	}
	return func(ctx context.Context, t Tick) {
		attrs := []slog.Attr{
			slog.String("job", t.Job), slog.String("outcome", string(t.Outcome)),
			slog.Duration("took", t.Took),
		}
		if !t.Due.IsZero() {
			attrs = append(attrs, slog.Time("due", t.Due))
		}
		if t.Missed > 0 {
			attrs = append(attrs, slog.Int("missed", t.Missed))
		}
		if t.Outcome == OutcomeCut {
			attrs = append(attrs, slog.Int("attempt", t.Attempt), slog.Int("left", t.Left))
		}
		if t.Err != nil {
			attrs = append(attrs, slog.Any("error", t.Err))
		}
		if t.Holder != (store.Holder{}) {
			attrs = append(attrs, slog.String("holder", t.Holder.String()))
		}
		l.LogAttrs(ctx, t.level(), "scheduled job", attrs...)
	}
}

// level is at which level the tick is logged.
func (t Tick) level() slog.Level {
	switch {
	case t.Outcome == OutcomeCut && t.Left > 0, t.Outcome == OutcomeConflict,
		errors.Is(t.Err, ticks.ErrRecordAhead):
		return slog.LevelWarn
	case t.Err != nil:
		return slog.LevelError
	case t.Outcome == OutcomeMissed, t.Missed > 0:
		return slog.LevelWarn
	default:
		return slog.LevelDebug
	}
}
