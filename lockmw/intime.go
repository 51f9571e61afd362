package lockmw

import (
	"context"
	"time"
)

// mostMargin bounds the part of a caller's time that is not spent waiting for a lock.
const mostMargin = 5 * time.Second

// AnswerBy returns when to tell a caller with a deadline that it does not get its lock: a margin
// before the deadline, so that the refusal reaches the caller in time. The margin is a quarter of
// the time that is left, at most 5 s. See [AnswerInTime]. It may be called concurrently.
func AnswerBy(deadline time.Time) time.Time {
	left := max(time.Until(deadline), 0)
	return deadline.Add(-min(left/4, mostMargin))
}

// AnswerInTime refuses a call that has not got its lock when its context's deadline is near: at
// [AnswerBy]. The error is [renewer.ErrBusy], or [renewer.ErrUnavailable] if the store could not be
// asked, instead of context.DeadlineExceeded, which would come too late for a caller in another
// process. It bounds [Wait] and [Within], and not the function. Default: off.
func AnswerInTime() Option {
	return func(s settings) settings { s.inTime = true; return s }
}

// bounded returns the settings for a call that must be answered before its deadline.
func (s settings) bounded(ctx context.Context) settings {
	deadline, ok := ctx.Deadline()
	left := time.Until(AnswerBy(deadline))
	if !ok || left <= 0 { // in the latter case the context ends the call
		return s
	}
	s.wait = min(s.wait, left)
	if s.within == 0 || s.within > left {
		s.within = left
	}
	return s
}
