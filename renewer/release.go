package renewer

import (
	"context"

	"github.com/lockbeat/lockbeat/renewer/internal/asking"
	"github.com/lockbeat/lockbeat/renewer/internal/desk"
	"github.com/lockbeat/lockbeat/renewer/internal/lease"
	"github.com/lockbeat/lockbeat/renewer/store"
)

var singleHolds asking.Single[store.Hold]

// Release ends the operation and frees the lock, or hands it to the next caller
// of this process. A cancelled ctx does not matter. It takes
// [Config.RequestTimeout] at most; what could not be freed by then is freed in
// the background, and lapses with its TTL at the latest.
//
// The error is a *[LostError] if the lease had been lost, and [ErrUnavailable]
// if it is not known whether the lock was freed. A second call does nothing and
// returns nil.
func (l *Lease) Release(ctx context.Context) error { return l.release(ctx, true) }

// Abort is Release after a panic or the like: the lock is freed at the store,
// and not handed to the next caller of this process.
func (l *Lease) Abort(ctx context.Context) error { return l.release(ctx, false) }

// release ends a lease: by a hand-off if that may be, or else at the store. The
// next waiter gets to the front also if the store panics.
func (l *Lease) release(ctx context.Context, orderly bool) error {
	e, over := l.end(orderly)
	if over {
		return nil
	}
	defer e.rescue()
	var a store.Answer
	if e.asks() {
		holds := singleHolds.Take(e.hold)
		answers := l.k.store.Release(e.request(ctx), holds[:])
		singleHolds.Put(holds)
		a = asking.AnswerTo(answers, 0, 1)
	}
	return e.settle(a)
}

// ended is a lease whose operation is over, until the store has been told.
type ended struct {
	l       *Lease
	held    bool // until now
	freed   bool // by Shutdown
	settled bool
	lost    *LostError
	hold    store.Hold
	now     instant
}

// end ends a lease in this process. It reports whether the store need not be
// told: the lease was over, or it has been handed over. The rescue of e is to
// be deferred.
func (l *Lease) end(orderly bool) (e ended, over bool) {
	k := l.k
	if l.belief.Until() != 0 {
		l.op.End(lease.ErrReleased) // before anybody else has the lock
	}
	e.l, e.now = l, k.clock.Recent()
	b := k.lock()
	if l.belief.Released() {
		b.Unlock()
		return e, true
	}
	if c := l.op.Made(); c != nil && c.Unwatch != nil {
		defer c.Unwatch()
	}
	if orderly && l.belief.Held() && l.belief.HasTokens() {
		if left, done := b.handOff(l, e.now); done {
			b.Unlock()
			left.End()
			e.observe(nil, true)
			return e, true
		}
	}
	e.held, e.freed = l.belief.Held(), l.belief.IsFree()
	l.belief.End()
	k.desk.GivesBack(l.key(), l)
	b.heartbeats.Unplan(l)
	e.lost, e.hold = l.belief.Why(), l.ending(e.now)
	b.Unlock()
	return e, false
}

// rescue is for a release that a panic has left, or that has ended the
// goroutine.
func (e *ended) rescue() {
	if !e.settled {
		e.l.k.discard(e.l, desk.Place{}, e.l.belief.Unsettled())
	}
}

// asks reports whether the store is to free the key: it was held until now, or
// was broken, and is to be freed by its owner.
func (e *ended) asks() bool { return e.held || e.broken() }

func (e *ended) broken() bool {
	return !e.held && !e.freed && !e.lost.gone() &&
		(e.lost.Reason == ReasonBroken || e.lost.Reason == ReasonReplaced)
}

// request is the context in which the store is asked, in the room of the
// operation's if there is one.
func (e *ended) request(ctx context.Context) context.Context {
	requests, c := e.l.k.requests, e.l.op.Made()
	if c == nil || ctx == context.Background() {
		return requests.Limited(ctx)
	}
	c.Freeing = asking.Valued{Context: requests.Limit(), Values: ctx}
	return &c.Freeing
}

// settle does what is left for a lease that is over, by the store's answer if
// that was asked, and returns the error of its release.
func (e *ended) settle(a store.Answer) error {
	k, l := e.l.k, e.l
	lost, failed := e.lost, error(nil)
	switch {
	case e.held && (a.Status == store.StatusTaken || a.Status == store.StatusGone):
		lost = e.foundLost(a)
	case e.asks():
		if a.Status == store.StatusUnknown {
			failed = a.Err
			unsettled := l.belief.Unsettled()
			if e.held {
				unsettled = 0 // that is for Revisit
			}
			k.cleaner.Disown(l.orphan(e.hold), unsettled)
		}
	default: // its caller should not wait for a store that may be down
		l.op.End(e.lost)
		if !e.freed && !e.lost.gone() {
			k.cleaner.Disown(l.orphan(e.hold), l.belief.Unsettled()) // the key may still be there
		}
	}
	if e.held || !e.freed && e.lost.gone() {
		if at := l.belief.Unsettled(); at != 0 {
			k.cleaner.Revisit(l.orphan(e.hold), at, e.now) // an acquire may yet bring it back
		}
		if lost != nil && !l.label.limited {
			e.giveUpPlace()
		}
	}
	b := k.lock()
	if e.held && lost != nil {
		l.belief.Tell(lost)
	}
	left := k.desk.Leave(l.key(), l)
	b.strike(l)
	b.Unlock()
	e.settled = true
	left.End()
	e.observe(failed, false)
	switch {
	case lost != nil:
		return lost
	case failed != nil:
		return &Error{
			Op: "release", Name: l.name, Kind: ErrUnavailable, Err: storeError{failed},
			Waited: k.clock.AtMost().Sub(e.now), Attempts: 1,
		}
	default:
		return nil
	}
}

// giveUpPlace gives up the place from which a lease was asked for that the
// store says is gone. A server may have lost its data after it granted the
// lease, and have been asked from the same place again since: then the place
// stands in its line, for an owner who will never come.
func (e *ended) giveUpPlace() {
	place := e.l.belief.Place()
	if place == 0 || e.held && e.hold.Place != 0 { // the release has given it up
		return
	}
	e.hold.Place = place
	e.l.k.cleaner.Disown(e.l.orphan(e.hold), 0)
}

// foundLost is for a lease that the store no longer knew when it was to be
// freed: lost since the last heartbeat.
func (e *ended) foundLost(a store.Answer) *LostError {
	l := e.l
	lost := &LostError{Name: l.name, Reason: reasonOf(a), Fence: l.belief.Fence}
	lost.found(a)
	l.k.hearers.Lost(l.op.Seen(), Lost{
		Name: l.name, Operation: l.label.operation, Fence: l.belief.Fence,
		Held: e.now.Sub(l.belief.Since()), Err: lost,
	})
	return lost
}

// observe tells the keeper's observer of the release.
func (e *ended) observe(failed error, handedOver bool) {
	l := e.l
	if l.k.observer == nil {
		return
	}
	r := Released{
		Name: l.name, Operation: l.label.operation, Fence: l.belief.Fence,
		Renewals: l.belief.Renewals(), HandedOver: handedOver, Lost: l.belief.Why(), Err: failed,
	}
	r.Held, r.Overrun = l.belief.Times(e.now)
	l.k.observer.Released(l.op.Seen(), r)
}

// discard ends a lease whose operation never began, since its caller has left,
// or whose release was left by a panic. The next waiter comes to the front, and
// the key is freed behind it. If it left a question that was asked from a
// place, at the instant unsettled, those behind it go on from that place.
// unsettled is as for [cleanup.Cleaner.Disown].
func (k *Keeper) discard(l *Lease, place desk.Place, unsettled instant) {
	b := k.lock()
	lost := l.belief.Why()
	if l.belief.Asking() {
		b.leases.Remove(l)
	}
	l.belief.End()
	b.heartbeats.Unplan(l)
	hold := l.ending(k.clock.AtMost())
	hold.Place = l.belief.Place()
	left := k.desk.GiveUp(l.key(), l, place, unsettled)
	b.Unlock()
	defer func() { // also if the store panics
		b := k.lock()
		b.strike(l)
		b.Unlock()
		left.End()
	}()
	k.giveUpPlace(l, &left)
	if l.belief.Owner.String() != "" && !l.claimPassedOn(&left) && (lost == nil || !lost.gone()) {
		k.cleaner.Disown(l.orphan(hold), unsettled)
	}
}

// A hand-off passes a lease on to the first of those who wait for the name in
// this process, without asking the store: the owner token, the deadline and the
// heartbeat go on; the context, the limits and the fencing token are new. The
// store has reserved the tokens with the grant ([store.Grant.Reserved]), so
// that they rise over all holders. It is bounded by [Config.HandOffs] and
// [Config.HandOffFor], so that other processes get their turn.

// handOff gives a lease that is being released, and has tokens, to the first
// waiter, or returns false: none waits, no token may be used, the heartbeat is
// in doubt or too little time is left, or something about either lease is
// unusual. left is to be ended without the lock.
func (b *books) handOff(l *Lease, now instant) (left desk.Left, done bool) {
	k := b.k
	if b.phase != phaseRun || l.belief.Unusual() {
		return left, false
	}
	token, ok := l.belief.NextToken(&k.rules, now)
	if !ok {
		return left, false
	}
	// a heartbeat is under way, and may find that the lease is lost
	if !b.heartbeats.Planned(l) {
		return left, false
	}
	if l.belief.Left(now) < k.cfg.Margin+2*k.cfg.RequestTimeout {
		return left, false
	}
	w, left := k.desk.HandOver(l.key(), l)
	if w == nil {
		return left, false
	}
	l.belief.Transfer(&k.rules, &w.L.belief, w.MaxHold, token, now)
	b.leases.Remove(l)
	b.attendBy(w.L, now)
	b.heartbeats.Unplan(l) // the new holder plans the next heartbeat when it has a context
	w.Tell()
	return left, true
}
