package libraries_test

import (
	"context"
	"time"

	"github.com/bsm/redislock"
)

// underRedislock runs work under a lock of bsm/redislock.
func underRedislock(
	ctx context.Context, locks *redislock.Client, key string, ttl time.Duration,
	work func(context.Context) error,
) error {
	lock, err := locks.Obtain(ctx, key, ttl, &redislock.Options{
		RetryStrategy: redislock.LinearBackoff(20 * time.Millisecond),
	})
	if err != nil {
		return err
	}
	defer func() { _ = lock.Release(context.WithoutCancel(ctx)) }()
	return renewed(ctx, ttl, func(ctx context.Context) error {
		return lock.Refresh(ctx, ttl, nil)
	}, work)
}
