package lockmw

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockbeat/lockbeat/lockmw/internal/naming"
	"github.com/lockbeat/lockbeat/lockmw/internal/profile"
	"github.com/lockbeat/lockbeat/lockmw/internal/unwind"
	"github.com/lockbeat/lockbeat/renewer"
)

// RunWhileHeld runs fn in one of all the processes that call it with the same name: the
// leader. The others stand by, for as long as ctx lives, through outages of the store
// too. fn's context ends when ctx does, or when the lead is lost, before another can
// have it; context.Cause reports which. If fn returns because of a loss (nil when its
// context has ended, context.Canceled, [renewer.ErrLost]), this process stands by again.
// If it returns for another reason, RunWhileHeld frees the lock, so that a successor
// leads in a moment, and returns fn's error, joined with the loss if there was one.
//
// When ctx ends it returns once fn has, with fn's error, or ctx's if fn was
// not running. It also returns the errors that standing by longer would not
// mend: [renewer.ErrName], [renewer.ErrShutdown], [renewer.ErrRejected], and [renewer.ErrConfig]
// for a name with a rank ([Ranked]).
//
// renewer.Config.MaxHold, which bounds pieces of work, does not end a lead; [MaxHold] does.
//
// A leader may lead for weeks, so its work is in no trace of the lock: spans that fn starts are
// roots of their own. tracing.Link(ctx) makes a link to the lock's span for them.
//
// Of the options it takes [Operation], by which observers know this lock's acquires
// (elected), losses and releases (resigned), [HoldAtLeast], which keeps a successor
// waiting, [MaxHold], after which the nodes choose anew, and [AtMost], for as many leaders. Called
// under the lock itself, it runs fn in that, once.
func RunWhileHeld(
	ctx context.Context, k *renewer.Keeper, name string, fn func(context.Context) error,
	opts ...Option,
) error {
	if k == nil || fn == nil {
		return needs("RunWhileHeld")
	}
	set := newSettings(opts)
	for {
		again, err := lead(ctx, k, name, fn, set)
		if !again || ctx.Err() != nil {
			return err
		}
	}
}

// lead leads once. again means that fn has returned because of a loss.
func lead(
	ctx context.Context, k *renewer.Keeper, name string, fn func(context.Context) error,
	set settings,
) (again bool, err error) {
	if _, rank := naming.CutRank(name); rank != 0 {
		return false, fmt.Errorf("%w: RunWhileHeld: the name has a rank (Ranked), and a lead has "+
			"none: give the name alone", renewer.ErrConfig)
	}
	name, err = set.asLimits(name)
	if err != nil {
		return false, err
	}
	s, err := reenter(ctx, k, name, false)
	if err != nil {
		return false, err
	}
	if s == nil {
		name, limit := set.limitOf(name)
		lease, err := k.Acquire(ctx, renewer.Request{
			Name: name, Limit: limit, Operation: set.operation, MaxHold: set.maxHold,
			LongRunning: true,
		})
		if err != nil {
			return false, err
		}
		s = newScope(k, lease, false)
	}
	s.holdAtLeast(set.least)
	err = unwind.Then(func() error {
		return profile.Do(s, k, name, set.operation, fn)
	}, func(err error) error {
		told := s.Err() != nil // else fn has not returned because of the loss: it was found later
		lost := s.leave(!errors.Is(err, unwind.Err))
		if !errors.Is(lost, renewer.ErrLost) {
			return err
		}
		stopped := err == nil && told || errors.Is(err, renewer.ErrLost) ||
			errors.Is(err, context.Canceled)
		again = stopped && s.outer == nil
		if err == nil {
			return nil
		}
		return withLoss(err, lost)
	})
	return again, err
}
