package lockmw

import (
	"context"
	"slices"

	"github.com/lockbeat/lockbeat/renewer"
)

// DoOrSkip is [Do] with [Skip], for callers to whom it is no error that somebody else
// is at it: ran tells whether fn ran. An error that fn returns is its own, be it that
// of a lock which it uses itself; so is one of ours for another reason than contention.
func DoOrSkip[T any](
	ctx context.Context, k *renewer.Keeper, name string, fn func(context.Context) (T, error),
	opts ...Option,
) (result T, ran bool, err error) {
	result, err = Do(ctx, k, name, func(ctx context.Context) (T, error) {
		ran = true
		return fn(ctx)
	}, append(slices.Clip(opts), func(s settings) settings { s.contention = skip; return s })...)
	if !ran && RefusalOf(err) == RefusalSkipped {
		return result, false, nil
	}
	return result, ran, err
}
