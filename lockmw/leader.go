package lockmw

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockbeat/lockbeat/renewer"
)

// RunWhileHeld runs fn in one of all the processes that call it with the same name: the leader. The others stand by, for as long as
// ctx lives, through outages of the store too. fn's context ends when ctx does, or when the lead is lost, before another can have
// it; context.Cause tells which. If fn returns an error for the sake of a loss (context.Canceled or [renewer.ErrLost]), this process
// stands by again. If it returns otherwise, RunWhileHeld frees the lock, so that a successor leads in a moment, and returns fn's
// error, joined with the loss if there was one.
//
// When ctx ends it returns once fn has, with fn's error, or ctx's if fn was not running. It also returns what standing by longer would
// not mend: [renewer.ErrName], [renewer.ErrShutdown], [renewer.ErrRejected].
//
// Of the options it takes [Operation], by which observers tell this lock's acquires (elected), losses and releases (resigned) from
// others, and [HoldAtLeast], which keeps a successor waiting. Called under the lock itself, it runs fn in that.
func RunWhileHeld(
	ctx context.Context, k *renewer.Keeper, name string, fn func(context.Context) error, opts ...Option,
) error {
	if k == nil || fn == nil {
		return fmt.Errorf("%w: RunWhileHeld needs a keeper (renewer.New) and a function", renewer.ErrConfig)
	}
	set := newSettings(opts)
	if find(ctx, k, name) != nil {
		return fn(ctx)
	}
	for {
		err := lead(ctx, k, name, fn, set)
		if !errors.Is(err, errLeadLost) || ctx.Err() != nil {
			return err
		}
	}
}

// errLeadLost is what lead returns when it is time to stand by again. It is not seen outside.
var errLeadLost = fmt.Errorf("the lead was lost: %w", context.Canceled)

// lead leads once.
func lead(
	ctx context.Context, k *renewer.Keeper, name string, fn func(context.Context) error, set settings,
) (err error) {
	lease, err := k.Acquire(ctx, name, set.operation, renewer.HoldAtLeast(set.least))
	if err != nil {
		return err
	}
	s := &scope{Context: lease.Context(), keeper: k, lease: lease}
	err = ErrUnwound // unless fn returns
	defer func() {
		free := lease.Release
		if errors.Is(err, ErrUnwound) {
			free = lease.Abort
		}
		lost := free(s.Context)
		switch {
		case err == nil || !errors.Is(lost, renewer.ErrLost):
		case errors.Is(err, renewer.ErrLost), errors.Is(err, context.Canceled):
			err = errLeadLost
		default:
			err = errors.Join(err, lost)
		}
	}()
	return fn(s)
}
