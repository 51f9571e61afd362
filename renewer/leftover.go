package renewer

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// leftover is a key to delete at the end.
type leftover struct {
	hold  Hold
	lease *Lease // whose operation still runs; nil for an orphan
	// otherwise it has been deleted once already, and only a request
	// that was lost on its way could bring it back
	must bool
}

// leftovers takes what is to be freed off the books: the keys of operations that still run although
// they had their notice, and orphans.
func (k *Keeper) leftovers() []leftover {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.clock.Now()
	left := k.noticed(now)
	for _, o := range k.takeOrphans() {
		left = append(left, o.leftover(now))
	}
	return left
}

// noticed takes the leases of operations that have had their notice off the books. Under k.mu.
func (k *Keeper) noticed(now instant) (left []leftover) {
	// since forget puts the last in the place of one that goes
	for _, l := range slices.Backward(k.leases) {
		if l.state == lost && l.lost().Reason != ReasonTaken && l.noticed() <= now {
			left = append(left, leftover{hold: l.ending(now), lease: l, must: true})
			k.forget(l)
		}
	}
	return left
}

// lastRequest is how long a request that frees keys may take when Shutdown's context has ended.
const lastRequest = time.Second / 2

// lastRequests is the context of those: it ends that long after ctx, or after now if that has
// ended.
func lastRequests(ctx context.Context) (context.Context, context.CancelFunc) {
	last, cancel := context.WithCancel(context.Background())
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(lastRequest, cancel) })
	return last, func() {
		stop()
		cancel()
	}
}

// freeNoticed releases what need not wait until the others have had their notice, once. It tells
// what must be tried again.
func (k *Keeper) freeNoticed(ctx context.Context) (again []leftover) {
	last, cancel := lastRequests(ctx)
	defer cancel()
	k.mu.Lock()
	left := k.noticed(k.clock.Now())
	k.mu.Unlock()
	var mu sync.Mutex
	k.byShard(left, func(some []leftover) {
		some, _ = k.freeOnce(last, some)
		mu.Lock()
		defer mu.Unlock()
		again = append(again, some...)
	})
	return again
}

func (o *orphan) leftover(now instant) leftover {
	h := o.hold
	h.Keep = keepUntil(o.least, now)
	return leftover{hold: h, must: !o.freed}
}

// freeAll deletes keys, those of each shard on their own, so that one that does not answer holds up
// no other's. It tries again while ctx has time, and no longer than the keys live by themselves.
func (k *Keeper) freeAll(ctx, last context.Context, left []leftover) error {
	var (
		mu      sync.Mutex
		count   int
		failure error
	)
	k.byShard(left, func(left []leftover) {
		left, why := k.freeShard(ctx, last, left)
		if len(left) > 0 {
			mu.Lock()
			count, failure = count+len(left), why
			mu.Unlock()
		}
	})
	if count == 0 {
		return nil
	}
	return unfreed(count, failure)
}

func unfreed(n int, failure error) error {
	return fmt.Errorf("%w: %d keys could not be freed, and lapse by themselves: %w", ErrUnavailable,
		n, storeError{failure})
}

// byShard calls free with the keys of each shard, all at the same time.
func (k *Keeper) byShard(left []leftover, free func([]leftover)) {
	shards := make(map[int][]leftover)
	for _, o := range left {
		i := k.shards.of(o.hold.Name)
		shards[i] = append(shards[i], o)
	}
	var wg sync.WaitGroup
	for _, some := range shards {
		wg.Go(func() { free(some) })
	}
	wg.Wait()
}

// freeShard tells what could not be freed, and why.
func (k *Keeper) freeShard(
	ctx, last context.Context, left []leftover,
) (_ []leftover, failure error) {
	lapsed := k.clock.Now().Add(k.cfg.TTL)
	for tries := 0; ; tries++ {
		if left, failure = k.freeOnce(last, left); len(left) == 0 {
			return nil, nil
		}
		pause := sweepPause(tries)
		deadline, ok := ctx.Deadline()
		if ctx.Err() != nil || ok && time.Until(deadline) <= pause || k.clock.Now() >= lapsed {
			return left, failure
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// freeOnce tells what must be tried again, and why.
func (k *Keeper) freeOnce(ctx context.Context, left []leftover) (again []leftover, failure error) {
	for batch := range slices.Chunk(left, freeMost) {
		holds := make([]Hold, len(batch))
		for i := range batch {
			holds[i] = batch[i].hold
		}
		request, cancel := context.WithTimeout(ctx, k.cfg.RequestTimeout) // k.life is over
		answers := k.store.Release(request, holds)
		cancel()
		for i, o := range batch {
			a := answerTo(answers, i, len(batch), brokenAnswer)
			switch {
			case a.Status != StatusUnknown && o.lease != nil:
				k.mu.Lock()
				o.lease.withRare().freed = true
				k.mu.Unlock()
			case a.Status == StatusUnknown && o.must:
				again, failure = append(again, o), orUnexplained(a.Err)
			}
		}
	}
	return again, failure
}
