package lockmw

import (
	"context"
	"fmt"

	"github.com/lockbeat/lockbeat/lockmw/internal/names"
	"github.com/lockbeat/lockbeat/lockmw/internal/option"
	"github.com/lockbeat/lockbeat/lockmw/internal/scope"
	"github.com/lockbeat/lockbeat/renewer"
)

// Do runs fn while this process holds the lock on name, and returns what fn
// returns. fn's context ends when the caller's does or when the lock is lost.
// See the package's text for the outcomes. It may be called concurrently.
func Do[T any, N Name](
	ctx context.Context, k *renewer.Keeper, name N, fn func(context.Context) (T, error),
	opts ...Option,
) (result T, err error) {
	return do(ctx, k, setOf(name), settings(opts), fn)
}

// Run is [Do] for a function that returns an error alone.
func Run[N Name](
	ctx context.Context, k *renewer.Keeper, name N, fn func(context.Context) error,
	opts ...Option,
) error {
	_, err := scope.Run(ctx, k, names.Set(setOf(name)), settings(opts), fn)
	return err
}

// Wrap returns fn with a lock around each call, on the name that key makes of
// its argument. It panics if k, key or fn is nil, and if no call of k can have
// the options. What it returns may be called concurrently.
func Wrap[In, Out any, N Name](
	k *renewer.Keeper, key func(In) N, fn func(context.Context, In) (Out, error), opts ...Option,
) func(context.Context, In) (Out, error) {
	set := wrapping(k, key == nil || fn == nil, opts)
	return func(ctx context.Context, in In) (Out, error) {
		return do(ctx, k, setOf(key(in)), set, func(ctx context.Context) (Out, error) {
			return fn(ctx, in)
		})
	}
}

// WrapRun is [Wrap] for a function that returns an error alone.
func WrapRun[In any, N Name](
	k *renewer.Keeper, key func(In) N, fn func(context.Context, In) error, opts ...Option,
) func(context.Context, In) error {
	set := wrapping(k, key == nil || fn == nil, opts)
	return func(ctx context.Context, in In) error {
		name := names.Set(setOf(key(in)))
		_, err := scope.Run(ctx, k, name, set, func(ctx context.Context) error {
			return fn(ctx, in)
		})
		return err
	}
}

// Lead runs fn in one of all the processes that call it with the same name: the
// leader; with a [Limit], in n of them. The others stand by for as long as ctx
// lives, through outages of the store too. fn's context ends when ctx does, or
// when the lead is lost, before another can have it; then this process stands
// by again. If fn returns for another reason, Lead returns its error, and a
// successor leads in a moment.
//
// When ctx ends, Lead returns what fn returns then, or ctx's error if fn is not
// running. It also returns errors that standing by would not mend:
// [renewer.ErrName], [renewer.ErrShutdown], [renewer.ErrRejected],
// [renewer.ErrConfig]. renewer.Config.MaxHold does not end a lead; [MaxHold]
// does. Called under the lock itself, it runs fn in that, once.
func Lead[N Name](
	ctx context.Context, k *renewer.Keeper, name N, fn func(context.Context) error,
	opts ...LeadOption,
) error {
	set := option.Of(option.Settings{}, opts, LeadOption.ForLead)
	return scope.Lead(ctx, k, names.Set(setOf(name)), set, fn)
}

func do[T any](
	ctx context.Context, k *renewer.Keeper, name Set, set option.Settings,
	fn func(context.Context) (T, error),
) (result T, err error) {
	if fn == nil {
		return result, fmt.Errorf("%w: Do needs a function", renewer.ErrConfig)
	}
	_, err = scope.Run(ctx, k, names.Set(name), set, func(ctx context.Context) (err error) {
		result, err = fn(ctx)
		return err
	})
	return result, err
}

// wrapping are the settings of a wrapped function.
func wrapping(k *renewer.Keeper, missing bool, opts []Option) option.Settings {
	if k == nil || missing {
		panic("lockbeat: lockmw.Wrap needs a keeper (renewer.New), a key function and a function")
	}
	set := settings(opts)
	set.MustSuit(k)
	return set
}

func settings(opts []Option) option.Settings {
	return option.Of(option.Settings{}, opts, Option.ForFunc)
}
