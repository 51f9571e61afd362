package asynqmw

import (
	"context"
	"errors"

	"github.com/hibiken/asynq"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
)

// Replace has the newest task of a key win: it ends the one that runs, and takes the place of one
// that waits, on any server. It runs when the older one has returned. It is for work that the last
// change makes worthless, such as an index or an export of what has changed again: see
// [lockmw.Replace].
//
// A task that is replaced is done, without an attempt used up, and is neither run again nor
// archived, also on its last attempt, since a newer one has its place. The context of one that runs
// ends with the cause renewer.ErrReplaced. If its handler returns nil, or an error that is
// context.Canceled or [renewer.ErrLost], that is all; renewer.LogObserver tells of it at Info. If
// it returns another one, Config.ErrorHandler is told of that, joined with asynq.RevokeTask, by
// which asynq drops the task. A task of a handler with neither Replace nor [Latest] that is
// replaced has lost its lock as by any loss, and is run again.
//
// The newest task waits in its worker's slot, for an eighth of its time unless [Wait] says
// less, and never stands in line, whatever [InLine] says. Of a key one runs and one waits, so
// that half of all workers wait at most. Which task is the newest is decided by when a worker
// takes it up: one that comes back, after the wait or a failure of its own, counts as the
// newest then.
//
// [Handle] and [Middleware] panic if the keeper's store does not know which call is the newest, as
// package quorum's does not, or with [AtMost].
func Replace() Option { return newestOf(lockmw.Replace()) }

// Latest has the newest task of a key wait as the only one, until the one that runs is done: one
// that waited for that is done, without having run. So however many tasks come meanwhile, the work
// is done once more. Otherwise it is like [Replace]: see [lockmw.Latest].
func Latest() Option { return newestOf(lockmw.Latest()) }

func newestOf(option lockmw.Option) Option {
	return func(s *settings) {
		s.newest, s.skip = []lockmw.Option{option}, false
		if s.wait == 0 {
			s.wait = defaultWaits
		}
	}
}

// isReplaced reports whether err is that of a task that waited, and that a newer one has replaced.
func isReplaced(err error) bool {
	return errors.Is(err, renewer.ErrReplaced) && !errors.Is(err, renewer.ErrLost)
}

// outcome is what asynq is told of work that may be replaced, has run on a context, and has
// returned own. err is own with what became of the lock. A lock of the work's own says nothing
// here.
func outcome(ctx context.Context, own, err error) error {
	switch {
	case !errors.Is(context.Cause(ctx), renewer.ErrReplaced):
		return err
	case own == nil, errors.Is(own, context.Canceled), errors.Is(own, renewer.ErrLost):
		return nil
	default:
		return errors.Join(err, asynq.RevokeTask)
	}
}
