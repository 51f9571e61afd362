package scope

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/internal/names"
	"github.com/lockbeat/lockbeat/lockmw/internal/option"
	"github.com/lockbeat/lockbeat/renewer"
)

// group is one attempt to take several locks. A caller that has some of them waits for another
// only in the order of the names, so that no callers wait for each other in a circle, and only
// for as long as its patience lasts.
type group struct {
	//nolint:containedctx // what is taken next runs under it: ends with the loss of any
	ctx      context.Context
	keeper   *renewer.Keeper
	set      option.Settings
	until    time.Time     // when to wait no longer for anything
	patience time.Duration // how long to wait for one lock with others in hand

	// counts the caller out of those who wait for busy alone; nil if it is not among them
	leave  func()
	taken  []*scope
	keeps  int                     // so many of taken were kept while the caller waited for another
	cancel context.CancelCauseFunc // ends ctx; nil while nothing is taken
	stops  []func() bool           // each has a loss not end ctx any more
}

// attempt takes all of wants, or none. busy is the one for which patience did not last: the
// next attempt waits for that one, first, before it takes any other.
func (g *group) attempt(wants []names.Want, first *names.Want) (busy *names.Want, err error) {
	over := false
	defer func() {
		if !over { // an observer or the store has panicked
			g.end()
			_ = leaveAll(g.taken, false)
		}
	}()
	if first == nil {
		busy, err = g.inOrder(wants)
	} else if err = g.waitFor(*first, time.Until(g.until), false); err == nil {
		// To wait now would be out of order.
		others := slices.DeleteFunc(slices.Clone(wants), func(w names.Want) bool {
			return w.ID() == first.ID()
		})
		err = g.tryAll(others)
	}
	over = true
	if err != nil {
		if busy != nil { // before the next caller has what is given back
			g.leave = listers.enter(g.keeper, busy.ID())
		}
		g.end()
		_ = leaveAll(g.taken, true) // what could not be freed lapses
	}
	return busy, err
}

// inOrder takes what is free at once, and waits for the rest, one after the other.
func (g *group) inOrder(wants []names.Want) (busy *names.Want, err error) {
	for {
		left := wants[len(g.taken):]
		// Of a single one, to wait asks the same question.
		if len(left) > 1 || len(g.taken) == 0 || g.patience <= 0 || g.isSlow(left[0]) {
			err := g.tryAll(left)
			if err == nil || g.set.Contention != option.Waits || !mayPass(g.ctx, err) {
				return nil, err
			}
			left = wants[len(g.taken):]
			if g.isSlow(left[0]) {
				return &left[0], err
			}
		}
		if busy, err = g.waitKeeping(left[0]); err != nil || len(left) == 1 {
			return busy, err
		}
	}
}

// waitKeeping waits for a lock, and keeps those in hand meanwhile for as long as patience
// lasts. busy is that lock if that is shorter than the time that is left.
func (g *group) waitKeeping(w names.Want) (busy *names.Want, err error) {
	left := time.Until(g.until)
	if len(g.taken) == 0 {
		return nil, g.waitFor(w, left, false)
	}
	if g.patience < left {
		left, busy = g.patience, &w
	}
	keeps, begun := g.taken, time.Now()
	g.keeps = len(keeps)
	err = g.waitFor(w, left, busy != nil)
	took := time.Since(begun)
	g.patience -= took
	if err != nil || took > keepFree { // noted before the next caller has what is given back
		listers.rest(g.keeper, keeps, took)
	}
	return busy, err
}

// tryAll asks for several locks at once, and waits for none. If it does not get all, it keeps
// those before the first that it did not get.
func (g *group) tryAll(wants []names.Want) error {
	found := make([]*scope, len(wants)) // of an outer call
	var leases []*renewer.Lease         // of the others
	unwound := true
	defer func() { _ = leaveAll(g.addFirst(found, leases), !unwound) }()
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

// addFirst adds the locks before the first that is missing. Give back the others.
func (g *group) addFirst(found []*scope, leases []*renewer.Lease) (others []*scope) {
	missing := false
	for _, s := range found {
		if s == nil && len(leases) > 0 {
			if l := leases[0]; l != nil {
				s = newScope(g.keeper, l, g.set.Strict)
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

// waitFor takes one lock, and waits for it for a while. passing means that the caller will ask
// again if that is too short.
func (g *group) waitFor(w names.Want, d time.Duration, passing bool) error {
	one := g.set
	one.Wait, one.Expected = max(d, 1), one.Expected || passing
	s, err := takeOne(g.ctx, g.keeper, w, one)
	if err == nil {
		g.add(s)
	}
	return err
}

// waitsNoMore counts the caller out of those who wait for one lock alone.
func (g *group) waitsNoMore() {
	if g != nil && g.leave != nil {
		g.leave()
	}
}

// isSlow reports whether the caller must not wait for a lock while it has others in hand.
func (g *group) isSlow(w names.Want) bool {
	return len(g.taken) > 0 && !listers.mayWait(g.keeper, w.ID(), g.taken[g.keeps:])
}

// add adds a lock that was taken.
func (g *group) add(s *scope) {
	if len(g.taken) == 0 {
		// The operation's context is in the first one's, and ends with each of the others' too.
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

// scope is the scope of an operation under all of the locks. A call inside of it, for any of
// their names, keeps them all.
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
