package renewer

import (
	"context"
	"fmt"
	"time"
)

// wait returns when the caller is at the front of its name's queue, and reports whether it is
// there as the holder, to whom the lock was handed. It counts the call in; one that fails is not
// counted.
func (c *call) wait(ctx context.Context) (handed bool, err error) {
	w, err := c.join()
	if w == nil || err != nil {
		return false, err
	}
	var timeout <-chan time.Time
	if c.until != never {
		timer := time.NewTimer(c.until.Sub(c.k.clock.AtMost()))
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case refusal := <-w.answer:
		if refusal == nil {
			c.noteAfter(w.after)
			return w.handed, nil
		}
		c.seen = *refusal
		err = c.refuse()
	case <-timeout:
		c.stepOut(w)
		err = c.refuse()
	case <-ctx.Done():
		c.stepOut(w)
		err = c.cancelled(ctx)
	case <-c.k.shutdown.closed:
		c.stepOut(w)
		err = c.fail(ErrShutdown, nil)
	}
	c.exit()
	return false, err
}

// noteAfter notes, for observers, who of this process had the lock until the caller came to the
// front; nil if none had.
func (c *call) noteAfter(l *Lease) {
	if l == nil || c.k.observer == nil {
		return
	}
	c.k.mu.Lock() // its operation may run on, if it was lost
	defer c.k.mu.Unlock()
	c.behind = holderInfo{known: true, holder: c.k.holder(l), since: l.acquired}
}

// join gives the caller its place: at the front, as the head, which is nil; or behind it, as a
// waiter. It refuses one who may not wait where that is known already.
func (c *call) join() (*waiter, error) {
	k := c.k
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.shutdown.phase != phaseRun {
		return nil, c.fail(ErrShutdown, nil)
	}
	if !k.queues.join(c.l) {
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
func (c *call) joinBehind() (*waiter, error) {
	k, name, r := c.k, c.l.name, &c.request
	c.contended = true
	info, known := k.lastSeen(name)
	if r.try && known {
		c.seen = info
		return nil, c.refuse()
	}
	if known && k.queues.holder(name) != nil {
		c.behind = info
	}
	if r.most > 0 && !r.try && k.queues.length(name) >= r.most {
		if info.err == nil {
			c.seen = info
		}
		return nil, c.fail(ErrHeld, fmt.Errorf(
			"%w: MaxWaiters (%d) callers of this process stand in it", ErrQueueFull, r.most))
	}
	w := &waiter{
		l: c.l, answer: make(chan *holderInfo, 1), try: r.try, term: r.term,
		maxHold: r.ownMaxHold(),
	}
	k.queues.need(name).push(w)
	return w, nil
}

// stepOut takes a waiter out of the queue. If it has come to the front in the same moment, the
// next in the queue comes there.
func (c *call) stepOut(w *waiter) {
	k := c.k
	k.mu.Lock()
	if w.handed {
		k.mu.Unlock()
		k.discard(w.l, 0)
		return
	}
	if w.queued {
		c.seen, _ = k.lastSeen(w.l.name)
		k.queues.of(w.l.name).remove(w)
	}
	left, place := k.leaveLocked(w.l) // no effect unless it is the head
	k.mu.Unlock()
	left()
	if place != 0 { // of a head before
		w.l.owner = newOwner()
		hold := Hold{Name: w.l.name, Owner: w.l.owner.String(), Place: place}
		k.cleaner.disown(w.l.orphan(hold), 0)
	}
}

// lastSeen is what a caller behind the front of a name hears when it may not wait. known reports
// whether that is an answer: it is none while the head has not heard from the store, nor while the
// holder gives the lock back, which may be free in a moment. Under k.mu.
func (k *Keeper) lastSeen(name string) (info holderInfo, known bool) {
	if l := k.queues.holder(name); l != nil {
		now := k.clock.AtMost()
		return holderInfo{
			known: true, holder: k.holder(l), heldFor: now.Sub(l.acquired), since: l.acquired,
			ttl: max(0, l.deadline.Sub(now)),
		}, l.state == held
	}
	if q := k.queues.of(name); q != nil && q.seen.known {
		return q.seen, true
	}
	return holderInfo{known: true, err: errNoAnswer}, false
}

// holdFront makes the head the holder, now that it has the lock. Waiters who do not wait until the
// lock is free are refused, and the watch ends unless others wait. Under k.mu. What it returns is
// to be called without the lock.
func (k *Keeper) holdFront(l *Lease) (done func()) {
	q := k.queues.grant(l)
	if q == nil {
		return nothing
	}
	info, _ := k.lastSeen(l.name)
	refused := q.removeTries()
	q.seen, q.place, q.queued, q.unsettled = holderInfo{}, 0, false, 0
	unwatch := nothing
	if q.first == nil {
		k.queues.drop(l.name)
		unwatch = q.watch.end()
	}
	return func() {
		refuseAll(refused, info)
		unwatch()
	}
}

func refuseAll(waiters []*waiter, why holderInfo) {
	for _, w := range waiters {
		w.answer <- &why
	}
}
