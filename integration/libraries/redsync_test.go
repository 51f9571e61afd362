package libraries_test

import (
	"context"
	"time"

	"github.com/go-redsync/redsync/v4"
)

// underRedsync runs work under a lock of redsync. ttl is its expiry.
func underRedsync(
	ctx context.Context, lock *redsync.Mutex, ttl time.Duration, work func(context.Context) error,
) error {
	if err := lock.LockContext(ctx); err != nil {
		return err
	}
	defer func() { _, _ = lock.UnlockContext(context.WithoutCancel(ctx)) }()
	return renewed(ctx, ttl, func(ctx context.Context) error {
		_, err := lock.ExtendContext(ctx)
		return err
	}, work)
}
