package locks

import (
	"context"
	"time"

	"github.com/lockbeat/lockbeat/inspect"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

const (
	// lookPause is between two looks at a lock.
	lookPause = 250 * time.Millisecond
	// leastRise is by how much a lease must end later for that to be a renewal,
	// and no difference between the ways of two requests.
	leastRise = 100 * time.Millisecond
)

// renewal is what was seen of a lease while it was looked at.
type renewal struct {
	seen  bool // it was renewed
	gone  bool // it is no owner's any more, or another's
	after time.Duration
}

// lookTwice looks at the leases of a lock again until it has seen each renewed,
// or gone, for s.look at most. It tells by fencing token. Those that were
// broken are not renewed any more, and are left out.
func (s *showing) lookTwice(
	ctx context.Context, locks renewer.Store, lock *store.Lock,
) (map[int64]renewal, error) {
	ends := make(map[int64]time.Time)
	for _, slot := range lock.Slots {
		if slot.Broken == nil {
			ends[slot.Fence] = lock.At.Add(slot.TTL)
		}
	}
	all := make(map[int64]renewal)
	if s.look <= 0 {
		return all, nil
	}
	begun := time.Now()
	for len(all) < len(ends) {
		if time.Since(begun) >= s.look {
			break
		}
		if err := pause(ctx, lookPause); err != nil {
			return nil, err
		}
		now, err := inspect.Show(ctx, locks, lock.Name, lock.Limit)
		if err != nil {
			return nil, failed(err)
		}
		current := make(map[int64]time.Time)
		for _, slot := range now.Slots {
			current[slot.Fence] = now.At.Add(slot.TTL)
		}
		for fence, end := range ends {
			at, held := current[fence]
			if _, known := all[fence]; !known && (!held || at.Sub(end) > leastRise) {
				all[fence] = renewal{seen: held, gone: !held, after: now.At.Sub(lock.At)}
			}
		}
	}
	for fence := range ends {
		if _, known := all[fence]; !known {
			all[fence] = renewal{after: time.Since(begun)}
		}
	}
	return all, nil
}

// pause waits, or returns the cause for which ctx has ended.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
