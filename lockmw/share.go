package lockmw

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/internal/naming"
	"github.com/lockbeat/lockbeat/renewer"
)

// LocalShare has this process admit n calls at once by itself for each limit of a call, while the
// store is away, without slots: for work to which an outage does more harm than a limit that is
// exceeded for a while. All processes together then admit n times their number, which is within the
// limit if n is the limit divided by the number of processes. Further calls are refused with
// [renewer.ErrUnavailable].
//
// The store is away when it was asked and has answered nothing for renewer.Config.FailOver
// (renewer.Keeper.Outage); until then calls wait. With the first answer the share is over: what
// runs by it goes on to its end, beside the slots that are granted from then on, and no more is
// admitted. A call inside it for the same limit runs in the same share. [Fence] is 0 and [Held] is
// false for it. The keeper's observer is told of each call, name by name (renewer.Observer's
// Unlocked).
//
// It is for names that are limits: with a lock the call is refused with [renewer.ErrConfig], and so
// it is if n is below 1. Default: an outage closes the limit.
func LocalShare(n int) Option {
	return func(s settings) settings { s.share, s.shared = n, true; return s }
}

// sharing is in the context of a call that runs by a share, for those inside it.
type sharing struct {
	k     *renewer.Keeper
	names []string
	over  atomic.Bool
	outer *sharing
}

type sharingKey struct{}

// has reports whether one of the calls that s stands for has a share of a limit now.
func (s *sharing) has(limit lockName) bool {
	for ; s != nil; s = s.outer {
		if !s.over.Load() && s.k == limit.keeper && slices.Contains(s.names, limit.name) {
			return true
		}
	}
	return false
}

// shares counts what this process admits by itself, by limit.
var shares = localShares{running: make(map[lockName]int)}

type localShares struct {
	mu      sync.Mutex
	running map[lockName]int
}

// checkShare refuses a share of a lock, before anything is asked.
func (s settings) checkShare(name string) error {
	if !s.shared {
		return nil
	}
	if s.share < 1 {
		return fmt.Errorf("%w: LocalShare(%d): give how many calls this process may admit "+
			"by itself", renewer.ErrConfig, s.share)
	}
	names := naming.Split(name)
	if names == nil {
		names = []string{name}
	}
	for _, one := range names {
		if _, _, limit := naming.CutLimit(one); !limit && one != "" && tooMany(one) == nil {
			return fmt.Errorf("%w: LocalShare is for limits, and the call takes a lock: give it "+
				"AtMost, or a name made by Limit", renewer.ErrConfig)
		}
	}
	return nil
}

// admit lets a call that was refused with err run without a slot. leave is to be called when it has
// returned, and is nil if it is refused.
func (s settings) admit(
	ctx context.Context, k *renewer.Keeper, name string, err error,
) (local context.Context, leave func()) {
	if s.share == 0 || RefusalOf(err) != RefusalUnavailable {
		return nil, nil
	}
	names := NamesOf(name)
	outage := outageOf(k, names)
	outer, _ := ctx.Value(sharingKey{}).(*sharing) // nil unless this call is inside such a one
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return outer.has(lockName{k, name}) // in which it runs
	})
	if len(names) > 0 && outage == 0 || !shares.take(k, names, s.share) {
		return nil, nil
	}
	own := &sharing{k: k, names: names, outer: outer}
	leave = func() {
		own.over.Store(true)
		shares.give(k, names)
	}
	told := false
	defer func() {
		if !told { // an observer has panicked
			leave()
		}
	}()
	ctx = WithFence(ctx, 0) // that of an outer lock is not this one's
	ctx = context.WithValue(ctx, sharingKey{}, own)
	for _, one := range names {
		k.Observer().Unlocked(ctx, renewer.Unlocked{
			Name: one, Operation: s.named, Outage: outage, Err: err,
		})
	}
	told = true
	return ctx, leave
}

// outageOf is for how long the store has been away for one of names.
func outageOf(k *renewer.Keeper, names []string) (longest time.Duration) {
	for _, name := range names {
		plain, _, _ := naming.CutLimit(name)
		longest = max(longest, k.Outage(plain))
	}
	return longest
}

func (l *localShares) take(k *renewer.Keeper, names []string, most int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range names {
		if l.running[lockName{k, name}] >= most {
			return false
		}
	}
	for _, name := range names {
		l.running[lockName{k, name}]++
	}
	return true
}

func (l *localShares) give(k *renewer.Keeper, names []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range names {
		key := lockName{k, name}
		l.running[key]--
		if l.running[key] == 0 {
			delete(l.running, key)
		}
	}
}
