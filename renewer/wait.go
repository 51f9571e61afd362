package renewer

import (
	"context"
	"fmt"
	"time"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/internal/queue"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// wait returns when the caller is at the front of its name's queue, and reports whether it is
// there as the holder, to whom the lock was handed. It counts the call in.
func (c *call) wait(ctx context.Context) (handed bool, err error) {
	w, err := c.join(ctx)
	if w == nil || err != nil {
		return false, err
	}
	c.newest.tell() // the store is to know of a call that waits behind another
	var timeout <-chan time.Time
	if c.until != never {
		timer := time.NewTimer(c.until.Sub(c.k.clock.AtMost()))
		defer timer.Stop()
		timeout = timer.C
	}
	gone := c.storeGone()
	for err == nil {
		select {
		case refusal := <-w.Answer:
			if refusal == nil {
				c.noteAfter(w)
				if over := ctx.Err() != nil || c.k.clock.AtMost() >= c.until; over && !w.Handed {
					c.k.mu.Lock() // it will not ask
					c.seeBefore(w.After)
					c.k.mu.Unlock()
				}
				return w.Handed, nil
			}
			c.seen = *refusal
			return false, c.refuse()
		case <-timeout:
			c.stepOut(w)
			err = c.refuse()
		case <-c.newest.nudged():
			if err = c.checkNewest(ctx); err != nil {
				c.stepOut(w)
			}
		case <-gone:
			c.stepOut(w)
			err = c.refuseAway()
		case <-ctx.Done():
			c.stepOut(w)
			err = c.cancelled(ctx)
		case <-c.turnedAway():
			c.stepOut(w)
			err = c.fail(ErrShutdown, nil)
		}
	}
	return false, err
}

// noteAfter notes, for observers, who of this process had the lock until the caller came to the
// front, if the one before it had; or that the store was asked for a slot of the caller's own.
func (c *call) noteAfter(w *queue.Waiter[*Lease]) {
	l := w.After
	if l == nil {
		c.attempts++
		return
	} else if c.k.observer == nil {
		return
	}
	c.k.mu.Lock() // its operation may run on, if it was lost
	defer c.k.mu.Unlock()
	if l.fence != 0 {
		c.behind = queue.Seen{Known: true, Holder: c.k.holder(l), Since: l.acquired}
	}
}

// seeBefore notes who of this process had the lock until now, if any had, for a call whose time is
// over as it comes to the front. Under k.mu.
func (c *call) seeBefore(l *Lease) {
	if l == nil || l.fence == 0 {
		return
	}
	held := c.k.clock.AtMost().Sub(l.acquired)
	c.seen = queue.Seen{Known: true, Holder: c.k.holder(l), HeldFor: held, Since: l.acquired}
	c.own = l.acquired <= c.begun
}

// join gives the caller its place: at the front, as the head, which is nil; or behind it, as a
// waiter; or none, to ask for a slot aside, which is nil too. It refuses one who may not wait where
// that is known already.
func (c *call) join(ctx context.Context) (*queue.Waiter[*Lease], error) {
	if c.newest != nil {
		return c.joinNewest(ctx)
	}
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	return c.joinLocked()
}

// joinFront is join where the caller need not wait, and reports whether that is so.
func (c *call) joinFront() (joined bool, err error) {
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	if c.k.queues.Front(c.l.key()) != nil {
		return false, nil
	}
	_, err = c.joinLocked()
	return true, err
}

func (c *call) joinLocked() (*queue.Waiter[*Lease], error) {
	k := c.k
	if !k.admits(&c.request) {
		return nil, c.fail(ErrShutdown, nil)
	}
	if c.request.Limit != nil && c.attempts == 0 && !k.outages.Troubled() &&
		k.queues.Front(c.l.key()) == nil && !k.queues.Lately(c.l.key(), c.begun) {
		c.aside = true
		c.countIn()
		return nil, nil
	}
	if !k.queues.Join(c.l.key(), c.l) {
		if err := c.checkOutage(); err != nil {
			return nil, err
		}
		w, err := c.joinBehind()
		if err != nil {
			return nil, err
		}
		c.countIn()
		return w, nil
	}
	c.countIn()
	return nil, nil
}

// joinBehind makes the caller a waiter. Under k.mu.
func (c *call) joinBehind() (*queue.Waiter[*Lease], error) {
	k, name, r := c.k, c.l.key(), &c.request
	c.contended = true
	info, known := k.lastSeen(name)
	if r.Try && known {
		c.seen = info
		return nil, c.refuse()
	}
	if known && k.holderOf(name) != nil {
		c.behind = info
	}
	q := k.queues.Need(name)
	if r.MaxWaiters > 0 && !r.Try && c.newest == nil && q.Len() >= r.MaxWaiters {
		if info.Err == nil {
			c.seen = info
		}
		return nil, c.fail(ErrBusy, fmt.Errorf(
			"%w: MaxWaiters (%d) callers of this process stand in it", ErrQueueFull, r.MaxWaiters))
	}
	w := &queue.Waiter[*Lease]{
		L: c.l, Answer: make(chan *queue.Seen, 1), Try: r.Try, MaxHold: r.ownMaxHold(),
		Limit: r.Limit,
	}
	q.Push(w)
	return w, nil
}

// stepOut takes a waiter out of the queue. If it has come to the front in the same moment, the
// next in the queue comes there.
func (c *call) stepOut(w *queue.Waiter[*Lease]) {
	k := c.k
	k.mu.Lock()
	c.seeBefore(w.After)
	if w.Handed {
		k.mu.Unlock()
		k.discard(w.L, 0)
		return
	}
	if w.Queued() {
		c.seen, _ = k.lastSeen(w.L.key())
		if l := k.holderOf(w.L.key()); l != nil {
			c.own = l.acquired <= c.begun
		}
		k.queues.Of(w.L.key()).Remove(w)
	}
	left, place := k.leaveLocked(w.L) // no effect unless it is the head
	k.mu.Unlock()
	left()
	k.giveUpPlace(w.L, place) // of a head before
}

// giveUpPlace has the store pass over a place from which l was to ask; 0 is none.
func (k *Keeper) giveUpPlace(l *Lease, place uint64) {
	if place != 0 {
		owner := newOwner() // an earlier question of the caller's own may be under way
		hold := store.Hold{Name: l.name, Limit: l.Limited(), Owner: owner.String(), Place: place}
		k.cleaner.Disown(l.orphan(hold), 0)
	}
}

// lastSeen is what a caller behind the front of a name hears when it may not wait. known reports
// whether that is an answer: it is none while the head has not heard from the store, nor while the
// holder gives the lock back, which may be free in a moment. Under k.mu.
func (k *Keeper) lastSeen(name contract.Name) (info queue.Seen, known bool) {
	if l := k.holderOf(name); l != nil {
		now := k.clock.AtMost()
		return queue.Seen{
			Known: true, Holder: k.holder(l), HeldFor: now.Sub(l.acquired), Since: l.acquired,
			TTL: max(0, l.deadline.Sub(now)),
		}, l.state == stateHeld
	}
	if q := k.queues.Of(name); q != nil && q.Seen.Known {
		return q.Seen, true
	} else if q != nil && q.Full.Known {
		return q.Full, false
	}
	return unavailable(errNoAnswer), false
}

// holdFront makes the head the holder, now that it has the lock. Waiters who do not wait until the
// lock is free are refused, and the watch ends unless others wait. Under k.mu. What it returns is
// to be called without the lock.
func (k *Keeper) holdFront(l *Lease, now instant) (done func()) {
	refused, unwatch := k.queues.Grant(l.key(), now)
	if len(refused) == 0 {
		return unwatch
	}
	info, _ := k.lastSeen(l.key())
	return func() {
		refuseAll(refused, info)
		unwatch()
	}
}

// passFront is holdFront for a slot of a limit: the next in line comes to the front at once, as
// there may be more slots.
func (k *Keeper) passFront(l *Lease, now instant) (done func()) {
	k.queues.Pass(l.key(), l, now)
	left, place := k.leaveLocked(l)
	if place == 0 {
		return left
	}
	return func() {
		left()
		k.giveUpPlace(l, place)
	}
}

func refuseAll(waiters []*queue.Waiter[*Lease], why queue.Seen) {
	for _, w := range waiters {
		w.Answer <- &why
	}
}

// holderOf is the lease of this process that has a name, until the store has heard that it is free;
// nil if none has. Under k.mu.
func (k *Keeper) holderOf(name contract.Name) *Lease {
	if l := k.queues.Front(name); l != nil && l.state != stateAsking {
		return l
	}
	return nil
}
