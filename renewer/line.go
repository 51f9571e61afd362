package renewer

import (
	"context"
	"fmt"
	"time"
)

// A line orders the callers of this process who want one name. Its head is in Keeper.lines: it
// alone asks the store, or has the lock already; the others stand behind it in arrival order and
// ask nobody. A line object exists only while somebody stands behind the head, the head waits for
// others, or it has tokens to hand on. Guarded by Keeper.mu, except for wake and falseWakes.
type line struct {
	front, back *waiter
	length      int
	tokens      tokens
	seen        glimpse       // what the head last learned
	wake        chan struct{} // told when the store says that the name may be free
	falseWakes  falseWakes    // the head's
	unwatch     func()
}

// waiter is one caller behind the head.
type waiter struct {
	l *Lease
	// nil: you are the head now; else this is why you are refused, since you won't wait
	turn        chan *glimpse
	try         bool
	queued      bool
	handed      bool // with your turn the lock is yours
	ahead, next *waiter
}

func nothing() {}

func (k *Keeper) lineOf(head *Lease) *line {
	if head.line == nil {
		head.line = &line{wake: make(chan struct{}, 1)}
	}
	return head.line
}

func (ln *line) push(w *waiter) {
	w.queued, w.ahead = true, ln.back
	if ln.back != nil {
		ln.back.next = w
	} else {
		ln.front = w
	}
	ln.back = w
	ln.length++
}

func (ln *line) remove(w *waiter) {
	if w.ahead != nil {
		w.ahead.next = w.next
	} else {
		ln.front = w.next
	}
	if w.next != nil {
		w.next.ahead = w.ahead
	} else {
		ln.back = w.ahead
	}
	w.queued, w.ahead, w.next = false, nil, nil
	ln.length--
}

// queue returns when the caller is at the head of its line, and tells whether it
// has been handed the lock. It counts the call in; one that fails is not counted.
func (c *call) queue(ctx context.Context) (handed bool, err error) {
	w, err := c.stand()
	if w == nil || err != nil {
		return false, err
	}
	k := c.k
	var bound <-chan time.Time
	if c.bound != never {
		timer := time.NewTimer(c.bound.Sub(k.clock.AtMost()))
		defer timer.Stop()
		bound = timer.C
	}
	select {
	case refusal := <-w.turn:
		if refusal == nil {
			return w.handed, nil
		}
		c.seen = *refusal
		err = c.refuse()
	case <-bound:
		c.stepOut(w)
		err = c.refuse()
	case <-ctx.Done():
		c.stepOut(w)
		err = c.cancelled(ctx)
	case <-k.shutdown.closed:
		c.stepOut(w)
		err = c.fail(ErrShutdown, nil)
	}
	c.exit()
	return false, err
}

// stand takes the caller's place in the line: behind others, as a waiter, or at its head.
func (c *call) stand() (*waiter, error) {
	k := c.k
	k.mu.Lock()
	if k.shutdown.phase != phaseRun {
		k.mu.Unlock()
		return nil, c.fail(ErrShutdown, nil)
	}
	head := k.lines[c.l.name]
	if head == nil {
		k.lines[c.l.name] = c.l
		c.counted = true
		k.books.callIn()
		k.mu.Unlock()
		return nil, nil
	}
	c.contended = true
	if c.request.try && k.knows(head) {
		c.seen = k.look(head)
		k.mu.Unlock()
		return nil, c.refuse()
	}
	if head.state == held {
		c.behind = k.look(head)
	}
	if most := c.request.most; most > 0 && !c.request.try && head.line != nil &&
		head.line.length >= most {
		if g := k.look(head); g.err == nil {
			c.seen = g
		}
		k.mu.Unlock()
		return nil, c.fail(ErrHeld,
			fmt.Errorf("%w: MaxWaiters (%d) callers of this process stand in it", ErrQueueFull,
				most))
	}
	w := &waiter{l: c.l, turn: make(chan *glimpse, 1), try: c.request.try}
	k.lineOf(head).push(w)
	c.counted = true
	k.books.callIn()
	k.mu.Unlock()
	return w, nil
}

// stepOut takes a waiter out of its line. If its turn has come in the same moment it is passed on.
func (c *call) stepOut(w *waiter) {
	k := c.k
	k.mu.Lock()
	if w.handed {
		k.mu.Unlock()
		k.discard(w.l, 0)
		return
	}
	if head := k.lines[c.l.name]; w.queued {
		c.seen = k.look(head)
		head.line.remove(w)
	}
	k.mu.Unlock()
	k.leave(w.l) // no effect unless it is the head
}

// knows tells whether it is known that the lock is not to be had now, or why not. Of
// a head that is being released it is not: it may be free in a moment. Under k.mu.
func (k *Keeper) knows(head *Lease) bool {
	return head.state == held || head.state == asking && head.line != nil && head.line.seen.known
}

// look is what callers behind head get to hear when they may not wait. Under k.mu.
func (k *Keeper) look(head *Lease) glimpse {
	if head.state != asking { // held, or being released, which is held still
		now := k.clock.AtMost()
		return glimpse{
			known: true, holder: k.holder(head), heldFor: now.Sub(head.acquired),
			ttl: max(0, head.deadline.Sub(now)),
		}
	}
	if k.knows(head) && head.line != nil {
		return head.line.seen
	}
	return glimpse{known: true, err: errNoAnswer}
}

// see notes what the store answered, tells those behind who do not
// want to wait, and watches for a wake-up.
func (c *call) see(g glimpse) {
	c.seen = g
	if c.request.try {
		c.tellLine(g)
		return
	}
	k := c.k
	k.mu.Lock()
	ln := k.lineOf(c.l)
	ln.seen = g
	refused := ln.takeTries()
	watch := ln.unwatch == nil && g.err == nil
	if watch {
		ln.unwatch = nothing // so that it happens once
	}
	k.mu.Unlock()
	refuseAll(refused, g)
	if watch {
		var unwatch func() // nil after a panic, so that the next head watches
		defer func() {
			k.mu.Lock()
			ln.unwatch = unwatch
			k.mu.Unlock()
		}()
		unwatch = k.store.Watch(c.l.name, k.waker(c.l.name, ln))
	}
}

// tellLine is see for a head that does not wait itself.
func (c *call) tellLine(g glimpse) {
	c.k.mu.Lock()
	var refused []*waiter
	if ln := c.l.line; ln != nil {
		ln.seen = g
		refused = ln.takeTries()
	}
	c.k.mu.Unlock()
	refuseAll(refused, g)
}

// waker makes the function that a store calls when name may be free.
func (k *Keeper) waker(name string, ln *line) func(error) {
	return func(err error) {
		if err != nil {
			k.fault("watch", name, err)
			return
		}
		select {
		case ln.wake <- struct{}{}:
		default:
		}
	}
}

// watched is the caller's line; nil while nothing is watched and no other caller stands behind.
func (c *call) watched() *line {
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	return c.l.line
}

// takeTries takes those out of the line who do not want to wait. Under Keeper.mu.
func (ln *line) takeTries() []*waiter {
	var tries []*waiter
	for w := ln.front; w != nil; {
		next := w.next
		if w.try {
			ln.remove(w)
			tries = append(tries, w)
		}
		w = next
	}
	return tries
}

func refuseAll(waiters []*waiter, why glimpse) {
	for _, w := range waiters {
		w.turn <- &why
	}
}

// settleLine is called under k.mu when head has got the lock: those who do not
// want to wait are refused, and nobody watches the store any more unless
// somebody waits. The function that it returns must be called without the lock.
func (k *Keeper) settleLine(head *Lease) func() {
	ln := head.line
	if ln == nil {
		return nothing
	}
	refused, g := ln.takeTries(), k.look(head)
	ln.seen = glimpse{}
	if ln.front != nil {
		return func() { refuseAll(refused, g) }
	}
	unwatch := ln.unwatch
	ln.unwatch = nil
	if ln.tokens.last == 0 {
		head.line = nil
	}
	return func() {
		refuseAll(refused, g)
		if unwatch != nil {
			unwatch()
		}
	}
}

// leave gives the head's place to the next in line. It does nothing for one who is not the head.
func (k *Keeper) leave(head *Lease) {
	k.mu.Lock()
	done := k.leaveLocked(head)
	k.mu.Unlock()
	done()
}

func (k *Keeper) leaveLocked(head *Lease) func() {
	if k.lines[head.name] != head {
		return nothing
	}
	ln := head.line
	head.line = nil
	if ln == nil {
		delete(k.lines, head.name)
		return nothing
	}
	if w := ln.front; w != nil {
		ln.remove(w)
		w.l.line = ln
		k.lines[head.name] = w.l
		w.turn <- nil
		return nothing
	}
	delete(k.lines, head.name)
	return func() { k.endWatch(ln) }
}

// endWatch ends the watch of a line that nobody stands in any more.
func (k *Keeper) endWatch(ln *line) {
	k.mu.Lock()
	unwatch := ln.unwatch
	ln.unwatch = nothing
	k.mu.Unlock()
	if unwatch != nil {
		unwatch()
	}
}
