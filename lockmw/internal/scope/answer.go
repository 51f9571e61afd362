package scope

import (
	"context"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/internal/option"
)

// mostMargin bounds the part of a caller's time that is not spent waiting for a
// lock.
const mostMargin = 5 * time.Second

// AnswerBy returns when to tell a caller with a deadline that it does not get
// its lock, so that the refusal reaches it in time: a quarter of the time that
// is left before the deadline, at most 5 s.
func AnswerBy(deadline time.Time) time.Time {
	left := max(time.Until(deadline), 0)
	return deadline.Add(-min(left/4, mostMargin))
}

// bound bounds the settings of a call that must be answered before its
// deadline.
func bound(ctx context.Context, opt *option.Settings) {
	deadline, ok := ctx.Deadline()
	left := time.Until(AnswerBy(deadline))
	if !ok || left <= 0 { // in the latter case the context ends the call
		return
	}
	opt.Wait = min(opt.Wait, left)
	if opt.Within == 0 || opt.Within > left {
		opt.Within = left
	}
}
