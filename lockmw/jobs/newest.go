package jobs

import (
	"context"
	"errors"

	"github.com/lockbeat/lockbeat/lockmw/adapter"
	"github.com/lockbeat/lockbeat/renewer"
)

// refusalOf is adapter.RefusalOf, but a job whose outer lock was replaced has
// lost that.
func refusalOf(err error) adapter.Refusal {
	if errors.Is(err, renewer.ErrLost) {
		return adapter.RefusalLost
	}
	return adapter.RefusalOf(err)
}

// ranOut is the result of work that has run on a context, and has returned own.
// err is own with what became of the lock. A lock of the work's own says
// nothing here.
func (h *handler) ranOut(ctx context.Context, own, err error) Result {
	switch {
	case !h.isNewest(), !errors.Is(context.Cause(ctx), renewer.ErrReplaced):
		return Result{Outcome: OutcomeRan, Err: err}
	case own == nil, errors.Is(own, context.Canceled), errors.Is(own, renewer.ErrLost):
		return Result{Outcome: OutcomeDone}
	default:
		return Result{Outcome: OutcomeDone, Err: err}
	}
}
