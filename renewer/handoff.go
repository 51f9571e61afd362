package renewer

import (
	"context"
	"time"

	"github.com/lockbeat/lockbeat/renewer/internal/timing"
)

// A hand-off passes a lease on to the first of those who wait for the name in this
// process, without asking the store: the owner token, the deadline and the heartbeat go
// on; the context, the limits and the fencing token are new. The store has reserved the
// tokens before ([Claim.Reserve]), so that they rise over all holders. It is bounded by
// [Config.HandOffs] and [Config.HandOffFor], so that other processes get their turn.

// tokens are the fencing tokens of one grant, for hand-offs. One is used only once the store's
// clock has reached it, and those that are left are given back with the release: so they do not run
// ahead of that clock, by which tokens rise after the store has lost its data. Guarded by
// Keeper.mu.
type tokens struct {
	granted instant // when the answer came: the store's clock has shown first by then
	first   int64   // the token granted
	last    int64   // the highest reserved, first if none is; 0 if none was asked for
	left    int     // hand-offs, by Config.HandOffs
	until   instant // by Config.HandOffFor
}

// reserve is how many tokens a contended acquire asks for: one for each microsecond of the time in
// which they may be used. All of them are past when the lease lapses.
func (c *call) reserve() int {
	cfg := &c.k.cfg
	if cfg.HandOffs < 0 || c.l.rare != nil || c.request.least > 0 { // which are never handed over
		return 0
	}
	return int(min(cfg.HandOffFor, cfg.TTL) / time.Microsecond)
}

// bookTokens books the tokens that came with a grant. Under k.mu.
func (c *call) bookTokens(now instant) {
	if !c.reserves {
		if c.l.line != nil {
			c.l.line.tokens = tokens{}
		}
		return
	}
	cfg := &c.k.cfg
	c.k.lineOf(c.l).tokens = tokens{
		granted: now, first: c.l.fence, last: c.l.fence + int64(c.reserved), left: cfg.HandOffs,
		until: now.Add(cfg.HandOffFor),
	}
}

// next is the token above fence, if it may be used by now. The store's clock may be slower than
// ours by the drift.
func (t *tokens) next(fence int64, now instant, drift float64) (int64, bool) {
	fence++
	elapsed := float64(now.Sub(t.granted)) * (1 - drift) / (1 + drift)
	ok := fence <= t.last && t.left > 0 && now < t.until &&
		float64(fence-t.first)*float64(time.Microsecond) <= elapsed
	return fence, ok
}

// handOff gives a lease that is being released to the next in line, or returns false: nobody waits,
// no token may be used, the heartbeat is in doubt or too little time is left, or something about
// either lease is unusual. What it returns is to be called without the lock. Under k.mu.
func (k *Keeper) handOff(l *Lease, now instant) (after func(), done bool) {
	ln := l.line
	if ln == nil || ln.front == nil || k.shutdown.phase != phaseRun {
		return nil, false
	}
	token, ok := ln.tokens.next(l.fence, now, k.cfg.ClockDrift)
	if !ok {
		return nil, false
	}
	w := ln.front
	next := w.l
	if l.rare.unusual() || next.rare.unusual() {
		return nil, false
	}
	// a heartbeat is under way, and may tell that the lease is lost
	if l.heartbeatPlace == timing.Nowhere {
		return nil, false
	}
	if l.deadline.Sub(now) < k.cfg.Margin+2*k.cfg.RequestTimeout {
		return nil, false
	}
	ln.remove(w)
	ln.tokens.left--
	l.line, next.line = nil, ln
	k.lines[l.name] = next
	next.owner, next.fence = l.owner, token
	next.state, next.acquired, next.deadline, next.due = held, now, l.deadline, l.due
	k.limitHold(next, now)
	k.books.replace(l, next)
	// at an instant no later than its own, MaxHold's included: it is moved when that comes
	k.deadlines.Replace(l, next)
	k.heartbeats.unplan(l) // the new holder plans the next heartbeat when it has a context
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
		// for those who are refused in this process; elsewhere the first holder's is known
		trace := k.observer.Claim(ctx)
		ctx = k.observer.AcquireEnd(ctx, AcquireEnd{
			AcquireStart: start, Wait: k.clock.AtMost().Sub(c.begun), Fence: l.fence,
			Contended: true, HandedOver: true,
			Holder: c.behind.holder, HeldFor: c.behind.heldFor,
		})
		k.mu.Lock()
		l.label = l.label.traced(trace)
		k.mu.Unlock()
	}
	if c.enterHanded(ctx) != nil { // lost in the moment between; nobody could be told yet
		var news losses
		news.leases = append(news.leases, l)
		news.deliver(k)
	}
	if k.cfg.CancelGrace > 0 {
		k.watchCaller(caller, l)
	}
	return l
}

// enterHanded lets a lease that was handed over begin, and tells why it has been lost already, if
// it has.
func (c *call) enterHanded(ctx context.Context) *LostError {
	k, l := c.k, c.l
	k.mu.Lock()
	defer k.mu.Unlock() // also if the store panics when it is asked for the shard
	if c.request.least > 0 {
		l.withRare().least = l.acquired.Add(c.request.least)
	}
	l.values = ctx
	lost := l.lost()
	if lost == nil {
		k.heartbeats.plan(l, l.due)
	}
	c.exitLocked()
	return lost
}

// discard ends a lease whose operation never began, since its caller has left, or whose release was
// left by a panic. The next in line has its turn, and the key is freed behind it. unsettled is as
// for disown.
func (k *Keeper) discard(l *Lease, unsettled instant) {
	k.mu.Lock()
	lost := l.lost()
	l.state = released
	l.until.Store(0)
	k.heartbeats.unplan(l)
	k.deadlines.Remove(l)
	hold := l.ending(k.clock.AtMost())
	left := k.leaveLocked(l)
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
