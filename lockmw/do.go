package lockmw

import (
	"context"
	"fmt"

	"github.com/lockbeat/lockbeat/renewer"
)

// Do runs fn while this process holds the lock on name, and returns what
// fn returns. See the package's text for the outcomes. It may be called
// concurrently. It costs less than a microsecond above the lease itself.
func Do[T any](
	ctx context.Context, k *renewer.Keeper, name string, fn func(context.Context) (T, error),
	opts ...Option,
) (result T, err error) {
	if k == nil || fn == nil {
		return result, fmt.Errorf("%w: Do needs a keeper (renewer.New) and a function",
			renewer.ErrConfig)
	}
	s, err := enter(ctx, k, name, newSettings(opts))
	if err != nil {
		return result, err
	}
	// Deferred, so that a panic and runtime.Goexit free the lock too, and pass through.
	defer func() { err = s.exit(err) }()
	err = ErrUnwound // unless fn returns
	return fn(s)
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
