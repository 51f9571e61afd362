package renewer

import (
	"context"

	"github.com/lockbeat/lockbeat/renewer/internal/asking"
	"github.com/lockbeat/lockbeat/renewer/internal/desk"
	"github.com/lockbeat/lockbeat/renewer/internal/lease"
	"github.com/lockbeat/lockbeat/renewer/store"
)

var singleHolds asking.Single[store.Hold]

// Release ends the operation and frees the lock, or hands it to the next caller of this
// process. A cancelled ctx does not matter. It takes [Config.RequestTimeout] at most; what
// could not be freed by then is freed in the background, and lapses with its TTL at the latest.
//
// The error is a *[LostError] if the lease had been lost, and [ErrUnavailable] if it is not
// known whether the lock was freed. A second call does nothing and returns nil.
func (l *Lease) Release(ctx context.Context) error { return l.k.release(ctx, l, true) }

// Abort is Release after a panic or the like: the lock is freed at the store, and not handed to
// the next caller of this process.
func (l *Lease) Abort(ctx context.Context) error { return l.k.release(ctx, l, false) }

// release ends a lease: by a hand-off if that may be, or else at the store. The next waiter gets to
// the front also if the store panics.
func (k *Keeper) release(ctx context.Context, l *Lease, orderly bool) error {
	e, over := k.endLease(l, orderly)
	if over {
		return nil
	}
	finished := false
	defer func() {
		if !finished {
			k.discard(l, 0, l.belief.Unsettled())
		}
	}()
	lost, failed := k.freeEnded(ctx, l, e)
	left := k.forget(l, e, lost)
	finished = true
	left.End()
	return k.released(l, e, lost, failed)
}

// forget ends what is left of a lease that was freed, or found lost. left is to be ended.
func (k *Keeper) forget(l *Lease, e ended, lost *LostError) (left desk.Left) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e.held && lost != nil {
		l.belief.Tell(lost)
	}
	left = k.desk.Leave(l.key(), l)
	k.strike(l)
	return left
}

// released tells the observer of a release, and returns its error.
func (k *Keeper) released(l *Lease, e ended, lost *LostError, failed error) error {
	k.observeRelease(l, e.now, failed, false)
	switch {
	case lost != nil:
		return lost
	case failed != nil:
		return &Error{
			Op: "release", Name: l.Name(), Kind: ErrUnavailable, Err: storeError{failed},
			Waited: k.clock.AtMost().Sub(e.now), Attempts: 1,
		}
	default:
		return nil
	}
}

// ended is a lease whose operation is over, for the store to be told.
type ended struct {
	held  bool // until now
	freed bool // by Shutdown
	lost  *LostError
	hold  store.Hold
	now   instant
}

// broken reports whether the lease was broken, and is to be freed by its owner.
func (e *ended) broken() bool {
	return !e.held && !e.freed && !e.lost.gone() &&
		(e.lost.Reason == ReasonBroken || e.lost.Reason == ReasonReplaced)
}

// endLease ends a lease in this process. It reports whether the store need not be told: the lease
// was over, or it has been handed over.
func (k *Keeper) endLease(l *Lease, orderly bool) (e ended, over bool) {
	if l.belief.Until() != 0 {
		l.op.End(lease.ErrReleased) // before anybody else has the lock
	}
	e.now = k.clock.Recent()
	k.mu.Lock()
	if l.belief.Released() {
		k.mu.Unlock()
		return e, true
	}
	if c := l.op.Made(); c != nil && c.Unwatch != nil {
		defer c.Unwatch()
	}
	if orderly && l.belief.Held() && l.belief.HasTokens() {
		if left, done := k.handOff(l, e.now); done {
			k.mu.Unlock()
			left.End()
			k.observeRelease(l, e.now, nil, true)
			return e, true
		}
	}
	e.held, e.freed = l.belief.Held(), l.belief.IsFree()
	l.belief.End()
	k.desk.GivesBack(l.key(), l)
	k.heartbeats.Unplan(l)
	e.lost, e.hold = l.belief.Why(), l.ending(e.now)
	k.mu.Unlock()
	return e, false
}

// freeEnded does what the store needs for a lease that is over, and returns why it was lost, and
// what failed.
func (k *Keeper) freeEnded(
	ctx context.Context, l *Lease, e ended,
) (lost *LostError, failed error) {
	lost = e.lost
	switch {
	case e.held:
		lost, failed = k.free(ctx, l, e.hold, e.now)
	case e.broken():
		failed = k.freeBroken(ctx, l, e.hold)
	default:
		k.abandon(l, e)
	}
	k.revisit(l, e)
	return lost, failed
}

// abandon sees to the key of a lease that was over when it was released. The caller should not wait
// for a store that may be down.
func (k *Keeper) abandon(l *Lease, e ended) {
	l.op.End(e.lost)
	if !e.freed && !e.lost.gone() {
		k.cleaner.Disown(l.orphan(e.hold), l.belief.Unsettled()) // the key may still be there
	}
}

// revisit frees the key of a lease once more if an acquire that was not answered may yet bring it
// back.
func (k *Keeper) revisit(l *Lease, e ended) {
	unsettled := l.belief.Unsettled()
	if unsettled == 0 {
		return
	}
	if e.held || !e.freed && e.lost.gone() {
		k.cleaner.Revisit(l.orphan(e.hold), unsettled, e.now)
	}
}

// free deletes the key of a lease that was believed in until now. The question is limited in the
// room of the lease's context if it has one.
func (k *Keeper) free(
	ctx context.Context, l *Lease, hold store.Hold, now instant,
) (*LostError, error) {
	var request context.Context
	if c := l.op.Made(); c == nil || ctx == context.Background() {
		request = k.requests.Limited(ctx)
	} else {
		c.Freeing = asking.Valued{Context: k.requests.Limit(), Values: ctx}
		request = &c.Freeing
	}
	holds := singleHolds.Take(hold)
	answers := k.store.Release(request, holds[:])
	singleHolds.Put(holds)
	return k.freed(l, hold, asking.AnswerTo(answers, 0, 1), now)
}

// freed is what became of the key of a lease that was believed in until now.
func (k *Keeper) freed(l *Lease, hold store.Hold, a store.Answer, now instant) (*LostError, error) {
	switch a.Status {
	case store.StatusHeld:
		return nil, nil
	case store.StatusTaken, store.StatusGone:
		return k.lostAtRelease(l, a, now), nil
	default:
		k.cleaner.Disown(l.orphan(hold), 0)
		return nil, a.Err
	}
}

// lostAtRelease is for a lease that the store no longer knew when it
// was to be freed: lost since the last heartbeat.
func (k *Keeper) lostAtRelease(l *Lease, a store.Answer, now instant) *LostError {
	lost := &LostError{Name: l.Name(), Reason: reasonOf(a), Fence: l.belief.Fence}
	lost.found(a)
	k.hearers.Lost(l.op.Seen(), Lost{
		Name: l.name, Operation: l.label.operation, Fence: l.belief.Fence,
		Held: now.Sub(l.belief.Since()),
		Err:  lost,
	})
	return lost
}

func (k *Keeper) observeRelease(l *Lease, now instant, failed error, handedOver bool) {
	if k.observer == nil {
		return
	}
	r := Released{
		Name: l.Name(), Operation: l.label.operation, Fence: l.belief.Fence,
		Renewals: l.belief.Renewals(), HandedOver: handedOver, Lost: l.belief.Why(), Err: failed,
	}
	r.Held, r.Overrun = l.belief.Times(now)
	k.observer.Released(l.op.Seen(), r)
}

// discard ends a lease whose operation never began, since its caller has
// left, or whose release was left by a panic. The next waiter comes to
// the front, and the key is freed behind it. If it left a question that was asked from a place, at
// the instant unsettled, those behind it go on from that place. unsettled is as for disown, too.
func (k *Keeper) discard(l *Lease, place uint64, unsettled instant) {
	k.mu.Lock()
	lost := l.belief.Why()
	if l.belief.Asking() {
		k.leases.Remove(l)
	}
	l.belief.End()
	k.heartbeats.Unplan(l)
	hold := l.ending(k.clock.AtMost())
	left := k.desk.GiveUp(l.key(), l, place, unsettled)
	hold.Place = left.Place
	k.mu.Unlock()
	defer func() { // also if the store panics
		k.mu.Lock()
		k.strike(l)
		k.mu.Unlock()
		left.End()
	}()
	if l.belief.Owner.String() != "" && (lost == nil || !lost.gone()) {
		k.cleaner.Disown(l.orphan(hold), unsettled)
	}
}

// A hand-off passes a lease on to the first of those who wait for the name in this
// process, without asking the store: the owner token, the deadline and the heartbeat go
// on; the context, the limits and the fencing token are new. The store has reserved the tokens with
// the grant ([store.Grant.Reserved]), so that they rise over all holders. It is bounded by
// [Config.HandOffs] and [Config.HandOffFor], so that other processes get their turn.

// bookTokens books the tokens that came with a contended grant. Under k.mu.
func (c *call) bookTokens(now instant) {
	cfg := &c.k.cfg
	if c.reserved <= 0 || cfg.HandOffs < 0 {
		return
	}
	c.l.belief.Tokens(now, c.reserved, cfg.HandOffs, now.Add(cfg.HandOffFor))
}

// handOff gives a lease that is being released, and has tokens, to the first waiter, or returns
// false: none waits, no token may be used, the heartbeat is in doubt or too little time is left, or
// something about either lease is unusual. left is to be ended without the lock. Under k.mu.
func (k *Keeper) handOff(l *Lease, now instant) (left desk.Left, done bool) {
	if k.shutdown.phase != phaseRun || l.belief.Unusual() {
		return left, false
	}
	token, ok := l.belief.NextToken(&k.rules, now)
	if !ok {
		return left, false
	}
	// a heartbeat is under way, and may find that the lease is lost
	if !k.heartbeats.Planned(l) {
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
	k.leases.Remove(l)
	k.attendBy(w.L, now)
	k.heartbeats.Unplan(l) // the new holder plans the next heartbeat when it has a context
	w.Tell()
	return left, true
}
