package once

import (
	"cmp"
	"context"
	"fmt"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
)

// Do returns the result of the work called name, which one caller in all processes has done or will
// do. It runs fn if no caller has, waits if another one is at it, and takes over if that one fails,
// dies or loses the lock. See the package's text for the outcomes. It may be called concurrently.
//
// fn's context is that of [lockmw.Do], and [Current] is the attempt.
// fn may run more than once in one call, never twice at a time, and must be such
// that an attempt which did not come to its end can be followed by another.
//
// The record names the type T, by its package's path and its name; a pointer counts as what it
// points to. A call for another type gets [ErrRecord] rather than a result that is not its own. So
// a type that was renamed, or moved to another package, can't take results that were recorded
// before, until [Keep] is over: end such works first, or put a version into their names. The fields
// of a type may change as the codec allows.
//
// It takes the lock on name itself: under that lock already it is an
// error, [renewer.ErrConfig], as are options that can't be meant.
func Do[T any, S ~string](
	ctx context.Context, k *renewer.Keeper, name S, fn func(context.Context) (T, error),
	opts ...Option,
) (result T, err error) {
	set, err := checkedOutside(ctx, "Do", k, string(name), opts)
	if err != nil {
		return result, err
	}
	if fn == nil {
		return result, fmt.Errorf("%w: once.Do needs a function", renewer.ErrConfig)
	}
	forget := func() { var zero T; result = zero }
	c := &call{
		settings: set, keeper: k, name: string(name), typ: tagOf[T](),
		work:   func(ctx context.Context) (err error) { result, err = fn(ctx); return err },
		encode: func() ([]byte, error) { return set.marshal(result) },
		decode: func(data []byte) error { forget(); return set.unmarshal(data, &result) },
		forget: forget,
	}
	err = c.run(ctx)
	return result, err
}

// checked are the settings of a call by who, if it can be meant.
func checked(
	who string, k *renewer.Keeper, name string, opts []Option,
) (set settings, err error) {
	if k == nil {
		return set, fmt.Errorf("%w: once.%s needs a keeper (renewer.New)", renewer.ErrConfig, who)
	}
	if set, err = newSettings(k, opts); err != nil {
		return set, err
	}
	return set, cmp.Or(renewer.CheckName(name), set.checkUnder())
}

// checkedOutside is checked for a call that takes the lock.
func checkedOutside(
	ctx context.Context, who string, k *renewer.Keeper, name string, opts []Option,
) (settings, error) {
	if lockmw.FenceOf(ctx, name) != 0 {
		return settings{}, fmt.Errorf("%w: once.%s takes the lock on the name itself: call it "+
			"outside of that lock", renewer.ErrConfig, who)
	}
	return checked(who, k, name, opts)
}
