package renewer

import "context"

// A hand-off passes a lease on to the first of those who wait for the name in this process, without asking the store: the owner
// token, the deadline and the heartbeat go on; the context, the limits and the fencing token are new. The store has reserved the
// tokens before ([Claim.Reserve]), so that they rise over all holders. It is bounded by [Config.HandOffs] and [Config.HandOffFor], so
// that other processes get their turn.

// turns is what a line may still hand off before the store is asked again. Guarded by Keeper.mu.
type turns struct {
	left  int     // tokens reserved and not used yet
	block int     // how many were reserved
	until instant // by Config.HandOffFor
}

// reserve is how many tokens the head of a line asks for: one for each who waits, and twice as many as before if those were all
// used up. So tokens run ahead of the clock by no more than hand-offs take.
func (ln *line) reserve(most int) int {
	n := ln.length
	if ln.turns.left == 0 {
		n = max(n, 2*ln.turns.block)
	}
	return max(0, min(n, most))
}

// handOff gives a lease that is being released to the next in line, or returns false: nobody waits, the turns are used up, the
// heartbeat is in doubt or too little time is left, or something about either lease is unusual. What it returns is to be called
// without the lock. Under k.mu.
func (k *Keeper) handOff(l *Lease, now instant) (after func(), done bool) {
	ln := l.line
	if ln == nil || ln.front == nil || ln.turns.left == 0 || now >= ln.turns.until || k.closing {
		return nil, false
	}
	w := ln.front
	next := w.l
	if l.rare != nil || next.rare != nil { // trouble with a heartbeat, HoldAtLeast, Manual
		return nil, false
	}
	if l.place[beats] == nowhere { // a heartbeat is under way, and may tell that the lease is lost
		return nil, false
	}
	if l.deadline.sub(now) < k.cfg.Margin+2*k.cfg.RequestTimeout {
		return nil, false
	}
	ln.remove(w)
	ln.turns.left--
	l.line, next.line = nil, ln
	k.lines[l.name] = next
	next.owner, next.fence = l.owner, l.fence+1
	next.state, next.acquired, next.deadline, next.due = held, now, l.deadline, l.due
	k.limitHold(next, now)
	k.leases[l.index], next.index, l.index = next, l.index, nowhere
	k.ends.replace(l, next)
	if k.cfg.MaxHold > 0 {
		k.ends.set(next, instant(next.until.Load())) // otherwise it is moved when the old instant comes
	}
	k.unplan(l) // the new holder plans the next heartbeat when it has a context
	l.state = released
	l.until.Store(0)
	w.handed = true
	w.turn <- nil
	if ln.front != nil || ln.unwatch == nil {
		return nothing, true
	}
	unwatch := ln.unwatch
	ln.unwatch = nil // whoever has to wait for the store watches again
	return unwatch, true
}

// received is the rest of an Acquire that was handed a lease.
func (c *call) received(ctx context.Context, start AcquireStart) *Lease {
	k, l := c.k, c.l
	caller := ctx
	if k.observer != nil {
		trace := k.observer.Claim(ctx) // for those who are refused in this process; elsewhere the first holder's is known
		ctx = k.observer.AcquireEnd(ctx, AcquireEnd{
			AcquireStart: start, Wait: k.clock.atMost().sub(c.begun), Fence: l.fence, Contended: true, HandedOver: true,
			Holder: c.behind.holder, HeldFor: c.behind.heldFor,
		})
		k.mu.Lock()
		l.label = l.label.traced(trace)
		k.mu.Unlock()
	}
	k.mu.Lock()
	if c.request.least > 0 {
		l.withRare().least = l.acquired.add(c.request.least)
	}
	l.values = ctx
	lost := l.lost()
	if lost == nil {
		k.plan(l, l.due)
	}
	k.calls--
	k.mu.Unlock()
	if lost != nil { // in the moment between; nobody could be told yet
		var news losses
		news.leases = append(news.leases, l)
		news.deliver(k)
	}
	if k.cfg.CancelGrace > 0 {
		k.watchCaller(caller, l)
	}
	return l
}

// decline passes a lease on whose new holder has left before it could begin.
func (k *Keeper) decline(l *Lease) {
	k.mu.Lock()
	if l.state == held {
		if after, done := k.handOff(l, k.clock.atMost()); done {
			k.mu.Unlock()
			after()
			return
		}
	}
	lost := l.lost()
	l.state = released
	l.until.Store(0)
	k.unplan(l)
	k.ends.remove(l)
	left := k.leaveLocked(l)
	k.forget(l)
	k.mu.Unlock()
	left()
	if lost == nil || lost.Reason != Usurped {
		k.disown(l, 0)
	}
}
