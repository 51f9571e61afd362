package scope

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/internal/names"
	"github.com/lockbeat/lockbeat/lockmw/internal/option"
	"github.com/lockbeat/lockbeat/renewer"
)

// mostPatience bounds for how long an attempt keeps locks while it waits for
// others, in all. Operations that take a moment are over by then, so callers
// that want the same locks get them in turn. If n such callers come one after
// the other, each may keep a lock for this long from those who want it alone;
// to count them by name would prevent that, and costs more than it is worth.
const mostPatience = 250 * time.Millisecond

// group is one attempt to take several locks. It takes what is free at once,
// and waits for the rest one after the other, in the order of the names: so no
// callers wait for each other in a circle. What it has it keeps meanwhile,
// until its patience is over. Then it gives all back, and the next attempt
// waits for the busy one first, with nothing in hand.
type group struct {
	//nolint:containedctx // what is taken next runs under it: ends with the loss of any
	ctx      context.Context
	keeper   *renewer.Keeper
	set      option.Settings
	until    time.Time     // when to wait no longer for anything
	patience time.Duration // for how long to wait with locks in hand

	taken  []*scope
	cancel context.CancelCauseFunc // ends ctx; nil while nothing is taken
	stops  []func() bool           // each has a loss not end ctx any more
}

// attempt takes all of wants, or none. busy is the one for which patience did
// not last: the next attempt waits for that one, first, before it takes any
// other.
func (g *group) attempt(wants []names.Want, first *names.Want) (busy *names.Want, err error) {
	over := false
	defer func() {
		if !over || err != nil { // not over: an observer or the store has panicked
			g.end()
			_ = leaveAll(g.taken, over) // what could not be freed lapses
		}
	}()
	if first == nil {
		busy, err = g.inOrder(wants)
	} else if err = g.waitFor(*first, time.Until(g.until), false); err == nil {
		// To wait now would be out of order.
		err = g.tryAll(slices.DeleteFunc(slices.Clone(wants), func(w names.Want) bool {
			return w.ID() == first.ID()
		}))
	}
	over = true
	return busy, err
}

func (g *group) inOrder(wants []names.Want) (busy *names.Want, err error) {
	for {
		left := wants[len(g.taken):]
		if len(left) > 1 || len(g.taken) == 0 { // of a single one, to wait asks the same
			err = g.tryAll(left)
			if err == nil || g.set.Contention != option.Waits || !mayPass(g.ctx, err) {
				return nil, err
			}
			left = wants[len(g.taken):]
		}
		begun, d := time.Now(), time.Until(g.until)
		if keeps := len(g.taken) > 0; keeps && g.patience < d {
			d, busy = g.patience, &left[0]
		}
		err = g.waitFor(left[0], d, busy != nil)
		if err != nil || len(left) == 1 {
			return busy, err
		}
		if busy != nil {
			g.patience, busy = g.patience-time.Since(begun), nil
		}
	}
}

// tryAll asks for several locks at once, and waits for none. If it does not get
// all, it keeps those before the first that it did not get.
func (g *group) tryAll(wants []names.Want) error {
	found := make([]*scope, len(wants)) // of an outer call
	var leases []*renewer.Lease         // of the others
	unwound := true
	defer func() { _ = leaveAll(g.addFirst(wants, found, leases), !unwound) }()
	set := g.set
	if set.Contention == option.Waits { // many take a while, and it waits for those not free
		set.Contention, set.Within, set.Expected = option.Refuses, max(time.Until(g.until), 1), true
	}
	requests := make([]renewer.Request, 0, len(wants))
	for i, w := range wants {
		var err error
		if found[i], err = reenter(g.ctx, g.keeper, w.ID(), g.set.Strict); err != nil {
			unwound = false
			return err
		}
		if found[i] == nil {
			requests = append(requests, request(g.ctx, g.keeper, w, set))
		}
	}
	var errs []error
	leases, errs = g.keeper.AcquireEach(g.ctx, requests)
	unwound = false
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// addFirst adds the locks before the first that is missing. Give back the
// others.
func (g *group) addFirst(
	wants []names.Want, found []*scope, leases []*renewer.Lease,
) (others []*scope) {
	missing := false
	for i, s := range found {
		if s == nil && len(leases) > 0 {
			if l := leases[0]; l != nil {
				s = newScope(g.keeper, l, wants[i].Limit != nil, g.set.Strict)
			}
			leases = leases[1:]
		}
		switch {
		case s == nil:
			missing = true
		case missing:
			others = append(others, s)
		default:
			g.add(s)
		}
	}
	return others
}

// waitFor takes one lock, and waits for it for a while. passing means that the
// caller will ask again if that is too short.
func (g *group) waitFor(w names.Want, d time.Duration, passing bool) error {
	one := g.set
	one.Wait, one.Expected = max(d, 1), one.Expected || passing
	s, err := takeOne(g.ctx, g.keeper, w, one)
	if err == nil {
		g.add(s)
	}
	return err
}

// add adds a lock that was taken.
func (g *group) add(s *scope) {
	if len(g.taken) == 0 {
		// The operation's context is in the first one's, and ends with each of
		// the others' too.
		g.ctx, g.cancel = context.WithCancelCause(s)
	} else if s.outer == nil || s.end != nil { // else it is what ctx is in
		cancel := g.cancel
		g.stops = append(g.stops, context.AfterFunc(s, func() { cancel(context.Cause(s)) }))
	}
	g.taken = append(g.taken, s)
}

// end ends the group's context.
func (g *group) end() {
	for _, stop := range g.stops {
		stop()
	}
	if g.cancel != nil {
		g.cancel(errOver)
	}
}

// scope is the scope of an operation under all of the locks. A call inside of
// it, for any of their names, keeps them all.
func (g *group) scope() *scope {
	slices.SortFunc(g.taken, func(a, b *scope) int {
		return cmp.Or(strings.Compare(a.lease.Name(), b.lease.Name()),
			cmp.Compare(a.lease.Fence(), b.lease.Fence()))
	})
	return (&scope{
		Context: g.ctx, keeper: g.keeper, lease: g.taken[0].lease, strict: g.set.Strict,
		all: g.taken, end: g.end,
	}).open()
}

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
