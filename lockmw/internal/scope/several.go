package scope

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/internal/names"
	"github.com/lockbeat/lockbeat/lockmw/internal/option"
	"github.com/lockbeat/lockbeat/renewer"
)

// takeAll takes the locks of a set of several, all or none.
func takeAll(
	ctx context.Context, k *renewer.Keeper, all names.Set, set option.Settings,
) (*scope, error) {
	if set.Newest != renewer.NewestOff {
		return nil, errNewestOfSeveral
	}
	wants := all.Narrowest()
	if first := slices.IndexFunc(wants, func(w names.Want) bool {
		return around(ctx, k, w) == nil
	}); first >= 0 {
		checkTransaction(ctx, k, wants[first], set)
	}
	until := time.Now().Add(set.Wait)
	for first := (*names.Want)(nil); ; {
		for _, w := range wants {
			if l := around(ctx, k, w); l != nil && l.Err() != nil {
				return nil, l.Err() // which no further attempt mends
			}
		}
		g := &group{
			ctx: ctx, keeper: k, set: set, until: until,
			patience: min(set.Wait/8, mostPatience),
		}
		busy, err := g.attempt(wants, first)
		switch {
		case err == nil:
			return g.scope(), nil
		case set.Contention != option.Waits || !mayPass(ctx, err) || !time.Now().Before(until),
			errors.Is(err, renewer.ErrUnavailable) && outageOf(k, wants) > 0:
			return nil, refused(err, set)
		}
		// Nothing has run yet, and all was given back, so begin again.
		first = busy
	}
}

var errNewestOfSeveral = fmt.Errorf("%w: Replace, Latest: the call is for several names (All): "+
	"give it one", renewer.ErrConfig)

// mayPass reports whether a new attempt at several locks may succeed: the one
// that failed is busy, or was lost while the caller waited for another.
func mayPass(ctx context.Context, err error) bool {
	switch {
	case errors.Is(err, renewer.ErrReplaced), errors.Is(err, renewer.ErrLost):
		return ctx.Err() == nil // else it may be one of another keeper's that ctx is under
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, renewer.ErrQueueFull):
		return false
	case errors.Is(err, renewer.ErrBusy):
		return !errors.Is(err, renewer.ErrLimitClosed)
	default:
		return errors.Is(err, renewer.ErrUnavailable) && !errors.Is(err, renewer.ErrRejected)
	}
}

// around is the lease on a lock or limit that ctx runs under, nil if there is
// none.
func around(ctx context.Context, k *renewer.Keeper, w names.Want) *renewer.Lease {
	for s := range scopes(ctx) {
		if l := s.leaseOn(w.ID()); l != nil && s.keeper == k {
			return l
		}
	}
	return nil
}

// leaveAll leaves locks, and frees them in one request. The error joins the
// losses.
func leaveAll(taken []*scope, orderly bool) error {
	freeAll(taken, orderly)
	var lost []error
	for _, s := range taken {
		lost = append(lost, s.lost())
	}
	return errors.Join(lost...)
}

func freeAll(taken []*scope, orderly bool) {
	var released, aborted []*renewer.Lease
	for _, s := range taken {
		if s.outer != nil { // it may be the last call in that one's lock, too
			defer func() { _ = s.leave(orderly) }()
		} else if last, orderly := s.countOut(orderly); last && orderly {
			released = append(released, s.lease)
		} else if last {
			aborted = append(aborted, s.lease)
		}
	}
	if len(released) > 0 {
		defer taken[0].keeper.ReleaseEach(taken[0].Context, released, false)
	}
	if len(aborted) > 0 {
		taken[0].keeper.ReleaseEach(taken[0].Context, aborted, true)
	}
}
