package jobs

import (
	"context"
	"errors"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
)

// Replace has the newest job of a key win: it ends the one that runs, and takes the place of one
// that waits, on any server. It runs when the older one has returned. It is for work that the last
// change makes worthless, such as an index or an export of what has changed again: see
// [lockmw.Replace].
//
// A job that is replaced is [OutcomeDone], also on its last attempt, since a newer one has its
// place. The context of one that runs ends with the cause renewer.ErrReplaced. If its function
// returns nil, or an error that is context.Canceled or [renewer.ErrLost], that is all; another
// error is the Result's. A job of a handler with neither Replace nor [Latest] that is replaced has
// lost its lock as by any loss.
//
// The newest job waits in its worker's slot, for an eighth of its time unless [Wait] says less, and
// never stands in line, whatever [InLine] says. Of a key one runs and one waits.
//
// The newest job is that of the greatest rank: of its key ([lockmw.Ranked]), or else the one that
// the adapter gives it ([Delivery].Rank). It keeps it when it comes back, after a wait or a failure
// of its own. One that is older than a job that has begun is done, unrun, also if that one failed,
// which is to be tried again. So it is for 24 h from when that began. Jobs without a rank go by
// when a worker takes them up, which is no order at all: let these read the state that they act on.
//
// [Wrap] panics if the keeper's store does not know which call is the newest, as package quorum's
// does not, or with [AtMost].
func Replace() Option { return newestOf(lockmw.Replace()) }

// Latest has the newest job of a key wait as the only one, until the one that runs is done: one
// that waited for that is done, without having run. So however many jobs come meanwhile, the work
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

// refusalOf is lockmw.RefusalOf, but a job whose outer lock was replaced has lost that.
func refusalOf(err error) lockmw.Refusal {
	if errors.Is(err, renewer.ErrLost) {
		return lockmw.RefusalLost
	}
	return lockmw.RefusalOf(err)
}

// ranOut is the result of work that has run on a context, and has returned own. err is own with
// what became of the lock. A lock of the work's own says nothing here.
func (h *handler) ranOut(ctx context.Context, own, err error) Result {
	switch {
	case h.newest == nil, !errors.Is(context.Cause(ctx), renewer.ErrReplaced):
		return Result{Outcome: OutcomeRan, Err: err}
	case own == nil, errors.Is(own, context.Canceled), errors.Is(own, renewer.ErrLost):
		return Result{Outcome: OutcomeDone}
	default:
		return Result{Outcome: OutcomeDone, Err: err}
	}
}
