package scope

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/internal/names"
	"github.com/lockbeat/lockbeat/lockmw/internal/option"
	"github.com/lockbeat/lockbeat/renewer"
)

// sharing is in the context of a call that runs by a share, for those inside
// it.
type sharing struct {
	k     *renewer.Keeper
	ids   []names.ID
	over  atomic.Bool
	outer *sharing
}

type sharingKey struct{}

// lockName is a lock or limit of a keeper.
type lockName struct {
	keeper *renewer.Keeper
	names.ID
}

// has reports whether one of the calls that s stands for has a share of a lock
// or limit now.
func (s *sharing) has(on lockName) bool {
	for ; s != nil; s = s.outer {
		if !s.over.Load() && s.k == on.keeper && slices.Contains(s.ids, on.ID) {
			return true
		}
	}
	return false
}

// shares counts what this process admits by itself, by lock or limit.
var shares = localShares{running: make(map[lockName]int)}

type localShares struct {
	mu      sync.Mutex
	running map[lockName]int
}

// admit lets a call that was refused with err run without its locks, by
// lockmw.LocalShare. leave is to be called when it has returned, and is nil if
// it is refused.
func admit(
	ctx context.Context, k *renewer.Keeper, set names.Set, opt option.Settings, err error,
) (local context.Context, leave func()) {
	if opt.Share == 0 || !isAway(err) {
		return nil, nil
	}
	wants := slices.Collect(set.All())
	outage := outageOf(k, wants)
	outer, _ := ctx.Value(sharingKey{}).(*sharing) // nil unless this call is inside such a one
	wants = slices.DeleteFunc(wants, func(w names.Want) bool {
		return outer.has(lockName{k, w.ID()}) // in which it runs
	})
	if len(wants) > 0 && outage == 0 || !shares.take(k, wants, opt.Share) {
		return nil, nil
	}
	own := &sharing{k: k, outer: outer}
	for _, w := range wants {
		own.ids = append(own.ids, w.ID())
	}
	leave = func() {
		own.over.Store(true)
		shares.give(k, own.ids)
	}
	told := false
	defer func() {
		if !told { // an observer has panicked
			leave()
		}
	}()
	ctx = WithFence(ctx, 0) // that of an outer lock is not this one's
	ctx = context.WithValue(ctx, sharingKey{}, own)
	for _, w := range wants {
		k.Observer().Unlocked(ctx, renewer.Unlocked{
			Name: w.Name, Operation: opt.Operation, Outage: outage, Err: err,
		})
	}
	told = true
	return ctx, leave
}

// isAway reports whether a call was refused since the store could not be asked,
// and for nothing else.
func isAway(err error) bool {
	return errors.Is(err, renewer.ErrUnavailable) && !errors.Is(err, renewer.ErrLost) &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// outageOf is for how long the store has been away for one of wants.
func outageOf(k *renewer.Keeper, wants []names.Want) (longest time.Duration) {
	for _, w := range wants {
		longest = max(longest, k.Outage(w.Name))
	}
	return longest
}

// take counts a call in: one at a time of a lock, most of a limit.
func (l *localShares) take(k *renewer.Keeper, wants []names.Want, most int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range wants {
		room := most
		if w.Limit == nil {
			room = 1
		}
		if l.running[lockName{k, w.ID()}] >= room {
			return false
		}
	}
	for _, w := range wants {
		l.running[lockName{k, w.ID()}]++
	}
	return true
}

func (l *localShares) give(k *renewer.Keeper, ids []names.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		key := lockName{k, id}
		l.running[key]--
		if l.running[key] == 0 {
			delete(l.running, key)
		}
	}
}
