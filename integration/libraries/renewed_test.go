package libraries_test

import (
	"context"
	"errors"
	"sync"
	"time"
)

var errOldLock = errors.New("the old lock is lost")

// renewed runs work and renews the old lock meanwhile. The context of work ends
// if no renewal is confirmed for four fifths of the lock's TTL.
func renewed(
	ctx context.Context, ttl time.Duration, renew, work func(context.Context) error,
) error {
	asked := time.Now() // before each request, so that a slow answer gains no time
	if err := renew(ctx); err != nil {
		return err
	}
	// Renewals go on until work returns, also when the caller has left.
	working, returned := context.WithCancel(context.WithoutCancel(ctx))
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	lapse := time.AfterFunc(ttl*4/5-time.Since(asked), func() { end(errOldLock) })
	defer lapse.Stop()
	var renewing sync.WaitGroup
	defer renewing.Wait()
	defer returned()
	renewing.Go(func() {
		for tick := time.NewTicker(ttl / 4); ; {
			select {
			case <-working.Done():
				return
			case asked := <-tick.C:
				if renew(working) == nil {
					lapse.Reset(ttl*4/5 - time.Since(asked))
				}
			}
		}
	})
	return work(ctx)
}
