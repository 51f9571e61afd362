package scope

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/lockbeat/lockbeat/lockmw/internal/names"
	"github.com/lockbeat/lockbeat/lockmw/internal/option"
	"github.com/lockbeat/lockbeat/lockmw/internal/unwind"
	"github.com/lockbeat/lockbeat/renewer"
)

// Lead is lockmw.Lead.
func Lead(
	ctx context.Context, k *renewer.Keeper, set names.Set, opt option.Settings,
	fn func(context.Context) error,
) error {
	w, one, err := set.One()
	switch {
	case k == nil || fn == nil:
		return fmt.Errorf("%w: Lead needs a keeper (renewer.New) and a function", renewer.ErrConfig)
	case cmp.Or(opt.Err, err) != nil:
		return cmp.Or(opt.Err, err)
	case !one || w.Rank != 0:
		return fmt.Errorf("%w: Lead: give one name or limit, without a rank", renewer.ErrConfig)
	}
	for {
		again, err := lead(ctx, k, w, opt, fn)
		if !again || ctx.Err() != nil {
			return err
		}
	}
}

// lead leads once. again means that fn has returned because of a loss.
func lead(
	ctx context.Context, k *renewer.Keeper, w names.Want, opt option.Settings,
	fn func(context.Context) error,
) (again bool, err error) {
	s, err := reenter(ctx, k, w.ID(), false)
	if err != nil {
		return false, err
	}
	if s == nil {
		lease, err := k.Acquire(ctx, renewer.Request{
			Name: w.Name, Limit: w.Limit, Operation: opt.Operation, MaxHold: opt.MaxHold,
			LongRunning: true,
		})
		if err != nil {
			return false, err
		}
		s = newScope(k, lease, w.Limit != nil, false)
	}
	s.holdAtLeast(opt.Least)
	fn = Labelled(k, names.Of(w), opt.Operation, fn)
	err = unwind.Then(func() error { return fn(s) }, func(err error) error {
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
