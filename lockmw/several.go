package lockmw

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/internal/naming"
	"github.com/lockbeat/lockbeat/renewer"
)

// mostPatience bounds how long a caller keeps locks while it waits for others, in all. Operations
// that take a moment are over by then, so that callers that want the same locks get them in turn.
// Some take longer, also on purpose: no caller keeps its other locks for as long as that.
const mostPatience = time.Second

// takeAll takes the locks on names, which are in order, all or none.
func takeAll(ctx context.Context, k *renewer.Keeper, names []string, set settings) (*scope, error) {
	for _, name := range names {
		plain, n, limit := naming.CutLimit(name)
		if err := renewer.CheckName(plain); err != nil {
			return nil, err
		}
		if limit && n < 0 {
			return nil, &renewer.Error{
				Op: "acquire", Name: plain, Kind: renewer.ErrConfig, Err: fmt.Errorf(
					"the limit is %d; give 0 to close it, or how many may run", n),
			}
		}
	}
	if first := slices.IndexFunc(names, func(name string) bool {
		return around(ctx, k, name) == nil
	}); first >= 0 {
		set.checkTransaction(ctx, k, names[first])
	}
	until := time.Now().Add(set.wait)
	var last, g *group
	defer func() { // also after a panic
		last.waitsNoMore()
		g.waitsNoMore()
	}()
	for first := ""; ; {
		for _, name := range names {
			if l := around(ctx, k, name); l != nil && l.Err() != nil {
				return nil, l.Err() // which no further attempt mends
			}
		}
		last = g
		g = &group{
			ctx: ctx, keeper: k, set: set, until: until,
			patience: min(set.wait/8, mostPatience),
		}
		busy, err := g.attempt(names, first)
		last.waitsNoMore()
		switch {
		case err == nil:
			return g.scope(), nil
		case set.contention != wait || !mayPass(ctx, err) || !time.Now().Before(until),
			RefusalOf(err) == RefusalUnavailable && outageOf(k, names) > 0:
			return nil, set.refused(err)
		}
		// Nothing has run yet, and all was given back, so begin again.
		first = busy
	}
}

// mayPass reports whether a new attempt at several locks may succeed: the
// one that failed is busy, or was lost while the caller waited for another.
func mayPass(ctx context.Context, err error) bool {
	switch RefusalOf(err) { //nolint:exhaustive // the others will be refused again
	case RefusalBusy:
		return !errors.Is(err, renewer.ErrLimitClosed)
	case RefusalLost, RefusalReplaced: // Keys takes no place of an older call itself
		return ctx.Err() == nil // else it may be one of another keeper's that ctx is under
	case RefusalUnavailable:
		return !errors.Is(err, renewer.ErrRejected)
	default:
		return false
	}
}

// around is the lease on name that ctx runs under, nil if there is none.
func around(ctx context.Context, k *renewer.Keeper, name string) *renewer.Lease {
	for s := range scopes(ctx) {
		if l := s.leaseOn(name); l != nil && s.keeper == k {
			return l
		}
	}
	return nil
}

// leaveAll leaves locks, and frees them in one request. The error joins the losses.
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
