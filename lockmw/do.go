package lockmw

import (
	"context"
	"fmt"

	"github.com/lockbeat/lockbeat/lockmw/internal/profile"
	"github.com/lockbeat/lockbeat/lockmw/internal/unwind"
	"github.com/lockbeat/lockbeat/renewer"
)

// Do runs fn while this process holds the lock on name, and returns what fn returns. See the
// package's text for the outcomes. It may be called concurrently. It costs less than a microsecond
// above the lease itself.
func Do[T any](
	ctx context.Context, k *renewer.Keeper, name string, fn func(context.Context) (T, error),
	opts ...Option,
) (result T, err error) {
	if k == nil || fn == nil {
		return result, needs("Do")
	}
	_, err = run(ctx, k, name, newSettings(opts), func(ctx context.Context) (err error) {
		result, err = fn(ctx)
		return err
	})
	return result, err
}

// Run is [Do] for a function that returns an error alone, and for adapters: ran reports whether fn
// ran. If it did not, err says why the lock was not to be had, and [RefusalOf] sorts it. If it did,
// err is fn's, which may be the error of a lock that fn uses itself, and [renewer.ErrLost] is
// joined to it as by Do.
//
// The lock is held until fn has returned, panicked or called runtime.Goexit; a panic passes
// through. A lock whose fn did not return is freed for all processes, rather than handed to the
// next caller who waits for it in this one. It may be called concurrently.
func Run(
	ctx context.Context, k *renewer.Keeper, name string, fn func(context.Context) error,
	opts ...Option,
) (ran bool, err error) {
	if k == nil || fn == nil {
		return false, needs("Run")
	}
	return run(ctx, k, name, newSettings(opts), fn)
}

// Wrap returns fn with a lock around each call, on the name that key derives from its
// argument. It panics if keeper, key or fn is nil. The options apply to every call.
func Wrap[In, Out any](
	k *renewer.Keeper, key func(In) string, fn func(context.Context, In) (Out, error),
	opts ...Option,
) func(context.Context, In) (Out, error) {
	if k == nil || key == nil || fn == nil {
		panic("lockbeat: lockmw.Wrap needs a keeper (renewer.New), a key function and a function")
	}
	return func(ctx context.Context, in In) (Out, error) {
		return Do(ctx, k, key(in), func(ctx context.Context) (Out, error) {
			return fn(ctx, in)
		}, opts...)
	}
}

// needs is the error of a function that was called without a keeper or a function.
func needs(who string) error {
	return fmt.Errorf("%w: %s needs a keeper (renewer.New) and a function", renewer.ErrConfig, who)
}

func run(
	ctx context.Context, k *renewer.Keeper, name string, set settings,
	fn func(context.Context) error,
) (ran bool, err error) {
	s, err := enter(ctx, k, name, set)
	if err != nil {
		local, leave := set.admit(ctx, k, name, err)
		if leave == nil {
			return false, err
		}
		defer leave()
		return true, profile.Do(local, k, name, set.operation, fn)
	}
	return true, unwind.Then(func() error {
		return profile.Do(s, k, name, set.operation, fn)
	}, s.exit)
}
