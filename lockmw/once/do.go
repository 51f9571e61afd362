package once

import (
	"cmp"
	"context"
	"fmt"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
)

// Do returns the result of the work called name. It runs fn if no caller has in
// any process, waits if another one is at it, and takes over if that one fails,
// dies or loses the lock. Under the lock on name already it is an error,
// [renewer.ErrConfig].
//
// fn's context is that of [lockmw.Do], and [Current] is the attempt. fn may run
// more than once in one call, never twice at a time: it must be able to follow
// an attempt that did not come to its end.
//
// A call for another type than that of the result, by its package's path and name, gets
// [ErrRecord]: put a version into the name when a type is renamed or moved.
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

// checked are the settings of a call by who, if they are valid.
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
