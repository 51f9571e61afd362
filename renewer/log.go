package renewer

import (
	"context"
	"errors"
	"log/slog"
)

// LogObserver writes what happens to a slog.Logger: acquires, heartbeats and releases at level
// Debug; at Warn, heartbeats that fail, losses, operations that ran on for longer than the notice
// that they got or that run without their lock, and keys that could not be freed. Names of locks
// are in its records; if yours carry personal data, log elsewhere or hash them first.
type LogObserver struct {
	NopObserver
	log *slog.Logger
}

var _ Observer = (*LogObserver)(nil)

// NewLogObserver returns an Observer that logs to logger, slog.Default() if that is nil.
func NewLogObserver(logger *slog.Logger) *LogObserver {
	if logger == nil {
		logger = slog.Default()
	}
	return &LogObserver{log: logger}
}

// AcquireEnd logs an acquisition at Debug, one that failed for want of a store at Warn.
func (o *LogObserver) AcquireEnd(ctx context.Context, e AcquireEnd) context.Context {
	level, msg := slog.LevelDebug, "lock acquired"
	if e.Err != nil {
		msg = "lock not acquired"
		if errors.Is(e.Err, ErrUnavailable) {
			level = slog.LevelWarn
		}
	}
	if !o.log.Enabled(ctx, level) {
		return ctx
	}
	attrs := []slog.Attr{
		slog.String("lock", e.Name), slog.String("operation", e.Operation),
		slog.Duration("wait", e.Wait),
		slog.Int("attempts", e.Attempts), slog.Bool("contended", e.Contended),
	}
	if e.HandedOver {
		attrs = append(attrs, slog.Bool("handed_over", true))
	}
	if e.Holder != (Holder{}) {
		attrs = append(attrs, slog.String("holder", e.Holder.String()),
			slog.Duration("held_for", e.HeldFor))
	}
	if e.Err != nil {
		attrs = append(attrs, slog.Any("error", e.Err))
	} else {
		attrs = append(attrs, slog.Int64("fence", e.Fence))
	}
	o.log.LogAttrs(ctx, level, msg, attrs...)
	return ctx
}

// Renewed logs heartbeats at Debug, and those that failed at Warn.
func (o *LogObserver) Renewed(ctx context.Context, e Renewed) {
	level, msg := slog.LevelDebug, "leases renewed"
	if e.Failed > 0 {
		level, msg = slog.LevelWarn, "leases not renewed yet"
	}
	if !o.log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.Int("leases", e.Leases), slog.Int("failed", e.Failed), slog.Int("gone", e.Gone),
		slog.Duration("lag", e.Lag), slog.Duration("took", e.Took),
	}
	if e.Err != nil {
		attrs = append(attrs, slog.Any("error", e.Err))
	}
	o.log.LogAttrs(ctx, level, msg, attrs...)
}

// Lost logs a loss at Warn.
func (o *LogObserver) Lost(ctx context.Context, e Lost) {
	o.log.LogAttrs(ctx, slog.LevelWarn, "lease lost",
		slog.String("lock", e.Name), slog.String("operation", e.Operation),
		slog.Int64("fence", e.Fence),
		slog.Duration("held", e.Held), slog.String("reason", e.Err.Reason.String()),
		slog.Duration("left", e.Err.Left),
		slog.Any("error", e.Err))
}

// Released logs a clean release at Debug, an overrun or a key that could not be freed at Warn.
func (o *LogObserver) Released(ctx context.Context, e Released) {
	level, msg := slog.LevelDebug, "lock released"
	switch {
	case e.Lost != nil && e.Overrun > e.Lost.Left:
		level, msg = slog.LevelWarn, "operation ran on when others could have the lock"
	case e.Err != nil:
		level, msg = slog.LevelWarn, "lock not freed yet"
	}
	if !o.log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("lock", e.Name), slog.String("operation", e.Operation),
		slog.Int64("fence", e.Fence),
		slog.Duration("held", e.Held), slog.Int("renewals", e.Renewals),
	}
	if e.HandedOver {
		attrs = append(attrs, slog.Bool("handed_over", true))
	}
	if e.Overrun > 0 {
		attrs = append(attrs, slog.Duration("overrun", e.Overrun))
	}
	if e.Err != nil {
		attrs = append(attrs, slog.Any("error", e.Err))
	}
	o.log.LogAttrs(ctx, level, msg, attrs...)
}

// Unlocked logs an operation without its lock at Warn.
func (o *LogObserver) Unlocked(ctx context.Context, e Unlocked) {
	o.log.LogAttrs(ctx, slog.LevelWarn, "operation runs without its lock",
		slog.String("lock", e.Name), slog.String("operation", e.Operation), slog.Duration("outage",
			e.Outage), slog.Any("error", e.Err))
}

// Fault logs trouble in the background at Warn.
func (o *LogObserver) Fault(e Fault) {
	o.log.LogAttrs(context.Background(), slog.LevelWarn, "lock store trouble",
		slog.String("doing", e.Doing), slog.String("lock", e.Name), slog.Any("error", e.Err))
}
