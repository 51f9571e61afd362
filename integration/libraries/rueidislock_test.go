package libraries_test

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis/rueidislock"
)

// underRueidislock runs work under a lock of rueidislock, which renews it.
func underRueidislock(
	ctx context.Context, locks rueidislock.Locker, name string, work func(context.Context) error,
) error {
	for { // WithContext would wait for a message, which may be lost
		// It is held until work returns, also when the caller has left.
		held, free, err := locks.TryWithContext(context.WithoutCancel(ctx), name)
		if err == nil {
			defer free()
			ctx, end := context.WithCancelCause(ctx)
			defer end(nil)
			defer context.AfterFunc(held, func() { end(errOldLock) })()
			return work(ctx)
		}
		if errors.Is(err, rueidislock.ErrLockerClosed) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
