package renewer

import (
	"context"
)

// release ends a lease: by a hand-off if that may be, or else at the store.
func (k *Keeper) release(ctx context.Context, l *Lease, orderly bool) error {
	if l.until.Load() != 0 {
		l.endContext(errReleased) // before anybody else has the lock
	}
	now := k.clock.Recent()
	k.mu.Lock()
	if l.state == released {
		k.mu.Unlock()
		return nil
	}
	unwatch := l.unwatcher()
	if orderly && l.state == held {
		if after, done := k.handOff(l, now); done {
			k.mu.Unlock()
			after()
			unwatch()
			k.observeRelease(l, now, nil, true)
			return nil
		}
	}
	was := l.state
	if l.extras != nil && l.extras.freed {
		was = released
	}
	l.end(released)
	k.heartbeats.unplan(l)
	k.deadlines.Remove(l)
	lost, hold := l.lost(), l.ending(now)
	k.mu.Unlock()

	unwatch()
	lost, failed := k.settleAndLeave(ctx, l, was, lost, hold, now)
	k.observeRelease(l, now, failed, false)
	switch {
	case lost != nil:
		return lost
	case failed != nil:
		return &Error{
			Op: "release", Name: l.name, Kind: ErrUnavailable, Err: storeError{failed},
			Waited: k.clock.AtMost().Sub(now), Attempts: 1,
		}
	default:
		return nil
	}
}

// settleAndLeave is settle, and lets the next waiter come to the
// front, also if the store or an observer panics.
func (k *Keeper) settleAndLeave(
	ctx context.Context, l *Lease, was state, lost *LostError, hold Hold, now instant,
) (_ *LostError, failed error) {
	over := false
	defer func() {
		if !over {
			k.discard(l, l.unsettled())
		}
	}()
	lost, failed = k.settle(ctx, l, was, lost, hold, now)
	k.mu.Lock()
	if was == held && lost != nil {
		l.foundLost(lost)
	}
	left, _ := k.leaveLocked(l)
	k.books.forget(l)
	k.mu.Unlock()
	over = true
	left()
	return lost, failed
}

// settle does what the store needs for a lease that is over, and tells why it was lost, and what
// failed.
func (k *Keeper) settle(
	ctx context.Context, l *Lease, was state, lost *LostError, hold Hold, now instant,
) (_ *LostError, failed error) {
	unsettled := l.unsettled()
	switch {
	case was == held:
		lost, failed = k.free(ctx, l, hold, now)
		k.revisit(l, hold, unsettled, now)
	case was == released:
		l.endContext(lost) // Shutdown has freed the key
	case lost.Reason != ReasonTaken:
		// Told already that it is over; the key may still be there,
		// but the caller should not wait for a store that may be down.
		l.endContext(lost)
		k.cleaner.disown(l.orphan(hold), unsettled)
	default:
		l.endContext(lost)
		k.revisit(l, hold, unsettled, now)
	}
	return lost, failed
}

// revisit has the cleaner come back for a key that was freed at an instant, if an acquire was sent
// that was never answered.
func (k *Keeper) revisit(l *Lease, hold Hold, unsettled, freed instant) {
	if unsettled != 0 {
		k.cleaner.revisit(l.orphan(hold), unsettled, freed)
	}
}

// free deletes the key of a lease that was believed in until now.
func (k *Keeper) free(ctx context.Context, l *Lease, hold Hold, now instant) (*LostError, error) {
	request := k.freeRequest(ctx, l)
	holds := singleHolds.take(hold)
	answers := k.store.Release(request, holds[:])
	singleHolds.put(holds)
	a := answerTo(answers, 0, 1, brokenAnswer)
	switch a.Status {
	case StatusHeld:
		return nil, nil
	case StatusTaken, StatusGone:
		return k.lostAtRelease(l, now), nil
	default:
		k.cleaner.disown(l.orphan(hold), 0)
		return nil, orUnexplained(a.Err)
	}
}

// freeRequest limits the question that frees a lease, in the room of its context if it has one.
func (k *Keeper) freeRequest(ctx context.Context, l *Lease) context.Context {
	c := l.op.Load()
	if c == nil || c == releasedContext || ctx == context.Background() {
		return k.requests.limited(ctx)
	}
	c.freeing = valued{k.requests.limit(), ctx}
	return &c.freeing
}

// lostAtRelease is for a lease that the store no longer knew when it
// was to be freed: lost since the last heartbeat.
func (k *Keeper) lostAtRelease(l *Lease, now instant) *LostError {
	lost := &LostError{Name: l.name, Reason: ReasonTaken, Fence: l.fence}
	if k.observer != nil {
		k.observer.Lost(l.seen(), Lost{
			Name: l.name, Operation: l.label.operation, Fence: l.fence, Held: now.Sub(l.acquired),
			Err: lost,
		})
	}
	return lost
}

func (k *Keeper) observeRelease(l *Lease, now instant, failed error, handedOver bool) {
	if k.observer == nil {
		return
	}
	r := Released{
		Name: l.name, Operation: l.label.operation, Fence: l.fence, Held: now.Sub(l.acquired),
		Renewals: int(l.renewals), HandedOver: handedOver, Lost: l.lost(), Err: failed,
	}
	if t := l.extras; t != nil && t.lostAt != 0 {
		r.Held, r.Overrun = t.lostAt.Sub(l.acquired), now.Sub(t.lostAt)
	}
	k.observer.Released(l.seen(), r)
}

// discard ends a lease whose operation never began, since its caller has
// left, or whose release was left by a panic. The next waiter comes to
// the front, and the key is freed behind it. unsettled is as for disown.
func (k *Keeper) discard(l *Lease, unsettled instant) {
	k.mu.Lock()
	lost := l.lost()
	l.end(released)
	k.heartbeats.unplan(l)
	k.deadlines.Remove(l)
	hold := l.ending(k.clock.AtMost())
	left, place := k.leaveLocked(l)
	hold.Place = place
	k.mu.Unlock()
	defer func() { // also if the store panics
		k.mu.Lock()
		k.books.forget(l)
		k.mu.Unlock()
		left()
	}()
	if l.owner != "" && (lost == nil || lost.Reason != ReasonTaken) {
		k.cleaner.disown(l.orphan(hold), unsettled)
	}
}

// Release ends the operation and frees the key, if it is still ours. It uses ctx for its values
// only: a cancelled caller still frees the lock. It takes at most [Config.RequestTimeout]; a key
// that could not be freed by then is freed in the background as soon as the store answers, and
// lapses with its TTL at the latest. That is true after [Keeper.Shutdown] too, except that nothing
// happens in the background any more: one request has to do.
//
// If others wait for the name in this process, the lock goes to the first
// of them without asking the store, within the bounds of [Config.HandOffs].
//
// The error is a *[LostError] if the lease had been lost, or is found
// to have been, and [ErrUnavailable] if it is not known whether the
// key was freed. A second call does nothing and returns nil.
func (l *Lease) Release(ctx context.Context) error { return l.k.release(ctx, l, true) }

// Abort is Release after a panic, or another failure that may have left this process in disorder:
// the lock is freed at the store in any case, rather than handed to the next in this process.
func (l *Lease) Abort(ctx context.Context) error { return l.k.release(ctx, l, false) }
