package renewer

import (
	"context"
	"time"

	"github.com/lockbeat/lockbeat/renewer/internal/desk"
	"github.com/lockbeat/lockbeat/renewer/internal/lease"
)

// Acquire waits for the lock, in order of arrival among the callers of this
// keeper, until ctx ends, r.MaxWait is over, or the store has been away for
// [Config.FailOver]. Release every lease.
//
// The lease is non-nil if and only if the error is nil. The error is an
// *[Error] of kind [ErrBusy], [ErrUnavailable], [ErrShutdown], [ErrName],
// [ErrConfig], or ctx's own error.
func (k *Keeper) Acquire(ctx context.Context, r Request) (*Lease, error) {
	if err := k.check(&r); err != nil {
		return nil, err
	}
	var c call // in the caller's stack
	ctx, start := c.begin(ctx, k, r)
	defer c.rescue()
	l, err := c.obtain(ctx, start)
	return l, c.end(ctx, start, err)
}

// check refuses what no acquire can have.
func (k *Keeper) check(r *Request) error {
	if fault := nameFault(r.Name); fault != nil {
		return &Error{Op: "acquire", Name: r.Name, Kind: ErrName, Err: fault}
	}
	if err := k.checkRequest(r); err != nil {
		return &Error{Op: "acquire", Name: r.Name, Kind: ErrConfig, Err: err}
	}
	return nil
}

// begin begins an acquire, and tells observers. Its rescue is to be deferred.
func (c *call) begin(
	ctx context.Context, k *Keeper, r Request,
) (context.Context, AcquireStart) {
	limit := 0
	if r.Limit != nil {
		limit = r.Limit()
	}
	start := AcquireStart{
		Name: r.Name, Limit: max(limit, 0), Operation: r.Operation, LongRunning: r.LongRunning,
		RefusalExpected: r.RefusalExpected, StandBy: r.StandBy,
	}
	if k.observer != nil {
		ctx = k.observer.AcquireStart(ctx, start)
	}
	*c = call{k: k, request: r, begun: k.clock.AtMost(), until: never, share: share{limit: limit}}
	c.l, c.room = k.newLease(ctx, r.Name, k.labels.of(r.Operation, r.Limit != nil))
	c.l.belief.Ask(c.begun, r.LongRunning)
	if r.Newest != NewestOff {
		c.newest = newestOf(r.Newest, c.l)
	}
	if r.givesWay() {
		c.l.belief.SetApart() // no lease is handed to it: the store is to know of it
	}
	if r.Newest == NewestReplaces || r.Manual != 0 {
		k.listen() // for one that replaces, or breaks, its operation
	}
	if r.MaxWait > 0 {
		c.until = c.begun.Add(r.MaxWait)
	}
	if r.Manual != 0 {
		c.l.belief.Manual(r.Manual.Truncate(time.Millisecond))
	}
	return ctx, start
}

// end is the end of a call that has returned, with the error that it returns.
func (c *call) end(ctx context.Context, start AcquireStart, err error) error {
	c.over = true
	if err != nil {
		c.k.observeRefusal(ctx, start, c, err)
	}
	return err
}

func (c *call) obtain(ctx context.Context, start AcquireStart) (l *Lease, err error) {
	if c.request.Limit != nil && c.limit <= 0 {
		return nil, c.noLimit()
	}
	if c.newest != nil {
		defer func() { c.newest.end(c.l, l != nil) }()
	}
	handed, err := c.wait(ctx)
	if err != nil {
		c.exit()
		return nil, err
	}
	if handed {
		return c.received(ctx, start), nil
	}
	if c.newest == nil {
		c.l.belief.Owner = lease.NewOwner()
	}
	sent, err := c.contend(ctx)
	if c.given && err == nil {
		return c.received(ctx, start), nil
	}
	return c.conclude(ctx, start, sent, err)
}

// conclude makes a lease of a claim that was granted, by a request that was
// sent at an instant, or leaves the front with the error that is why it was
// not.
func (c *call) conclude(
	ctx context.Context, start AcquireStart, sent instant, err error,
) (*Lease, error) {
	if err != nil {
		c.giveUp()
		return nil, err
	}
	return c.grant(ctx, start, sent), nil
}

// rescue is for a call that an observer or the store has left by a panic, or by
// ending the goroutine: the next caller gets its turn, and what the store may
// have given is freed. The panic goes on.
func (c *call) rescue() {
	if c.over {
		return
	}
	defer c.exit() // last, so that Shutdown does not miss the key
	k, l := c.k, c.l
	b := k.lock()
	over := l.belief.Released() // its key has been seen to already
	b.Unlock()
	if over {
		return
	}
	unsettled := c.unsettled
	if c.attempts > 0 {
		unsettled = k.clock.AtMost() // the last question may be under way still
	}
	k.disownAll(c.others, unsettled)
	l.op.End(lease.ErrReleased)
	k.discard(l, c.place, unsettled)
}

// giveUp leaves the front without the lock.
func (c *call) giveUp() {
	k := c.k
	c.l.op.Drop()
	left := k.desk.GiveUp(c.l.key(), c.l, c.place, c.unsettled)
	left.End()
	k.giveUpPlace(c.l, &left)
	if c.unsettled != 0 && !c.l.claimPassedOn(&left) { // the store may give it to us yet
		hold := c.l.keyOf(&c.l.belief.Owner)
		hold.Place = c.l.belief.Place()
		k.cleaner.Disown(c.l.orphan(hold), c.unsettled)
	}
	c.exit()
}

// grant makes a lease of a claim that the store has granted.
func (c *call) grant(ctx context.Context, start AcquireStart, sent instant) *Lease {
	k, l := c.k, c.l
	now := k.clock.AtMost()
	caller := ctx
	if k.observer != nil {
		e := c.ending(start, now)
		e.Fence = l.belief.Fence
		ctx = k.observer.AcquireEnd(ctx, e)
		l.op.Drop() // the observer's, which carries its span, takes its place
	}
	l.op.Begin(ctx)
	d, seen, news := c.enter(sent, now)
	if len(d.Refused) > 0 {
		desk.RefuseAll(d.Refused, seen)
	}
	d.Left.End()
	k.giveUpPlace(l, &d.Left)
	news.deliver()
	if k.cfg.CancelGrace > 0 {
		k.watchCaller(caller, l)
	}
	return l
}

// enter puts a lease that the store has granted on the books. seen is for those
// who are refused.
func (c *call) enter(
	sent, now instant,
) (d desk.Granted[*Lease], seen desk.Seen, news losses) {
	k, l := c.k, c.l
	b := k.lock()
	defer b.Unlock() // also if the store panics when it is asked for the shard
	news = losses{b: b, now: now}
	l.belief.Grant(&k.rules, sent, now, c.request.ownMaxHold())
	b.attendBy(l, now)
	if !b.breakWatch.listens {
		b.ends.WakeBy(now.Add(listenAfter))
	}
	if !l.belief.IsManual() {
		l.belief.Due = b.heartbeats.First(sent)
		b.plan(l, l.belief.Due)
	}
	d = k.desk.Granted(l.key(), l, c.request.Limit != nil, c.place.Number, now)
	c.inside = false
	if unsettled := max(c.unsettled, d.Unsettled); unsettled != 0 {
		l.belief.Unsettle(unsettled, c.place.Number)
	}
	if cfg := &k.cfg; d.Waited && c.reserved > 0 && cfg.HandOffs >= 0 {
		l.belief.Tokens(now, c.reserved, cfg.HandOffs, now.Add(cfg.HandOffFor))
	}
	if len(d.Refused) > 0 {
		seen = b.seenOf(l)
	}
	if c.callers > 0 {
		l.belief.Told(-1) // an earlier claim of the same owner may have told another number
	}
	if c.newest != nil && c.newest.kind == NewestReplaces && k.desk.Ousted(c.newest.Newest) {
		news.lose(l, ReasonReplaced)
	} else if b.phase >= phaseTell { // Shutdown has dealt with the others already
		b.stillRan++
		news.lose(l, ReasonShutdown)
	}
	return d, seen, news
}

func (k *Keeper) observeRefusal(ctx context.Context, start AcquireStart, c *call, err error) {
	if k.observer == nil {
		return
	}
	e := c.ending(start, k.clock.AtMost())
	e.Err = err
	k.observer.AcquireEnd(ctx, e)
}

// ending is what observers hear of the end of an acquire, granted or not.
func (c *call) ending(start AcquireStart, now instant) AcquireEnd {
	start.Limit = max(c.limit, 0)
	seen := c.holder()
	return AcquireEnd{
		AcquireStart: start, Wait: now.Sub(c.begun), Attempts: c.attempts, Contended: c.contended,
		Holder: seen.Holder, HeldFor: seen.HeldAt(now), Held: seen.Held,
	}
}

// received is the rest of an Acquire that was handed a lease.
func (c *call) received(ctx context.Context, start AcquireStart) *Lease {
	k, l := c.k, c.l
	caller := ctx
	if k.observer != nil {
		// told to those who are refused in this process; other processes know
		// the trace of the lease's first holder
		trace := k.observer.Claim(ctx)
		ctx = k.observer.AcquireEnd(ctx, AcquireEnd{
			AcquireStart: start, Wait: k.clock.AtMost().Sub(c.begun), Fence: l.belief.Fence,
			Attempts: c.attempts, Contended: true, HandedOver: c.attempts == 0,
			Holder: c.behind.Holder, HeldFor: c.behind.HeldAt(l.belief.Since()),
		})
		l.setTrace(trace)
	}
	news := c.enterHanded(ctx)
	news.deliver()
	if k.cfg.CancelGrace > 0 {
		k.watchCaller(caller, l)
	}
	return l
}

// enterHanded lets a lease that was handed over begin. It may have been lost in
// the moment between, when its operation could not be told yet.
func (c *call) enterHanded(ctx context.Context) (news losses) {
	l := c.l
	b := c.k.lock()
	defer b.Unlock() // also if the store panics when it is asked for the shard
	l.op.Begin(ctx)
	news.b = b
	if l.belief.Why() != nil {
		news.leases = []*Lease{l}
	} else {
		b.plan(l, l.belief.Due)
	}
	c.inside = false
	c.k.desk.Out() // not idle: the lease is on the books
	return news
}

// exit counts a call out, once.
func (c *call) exit() {
	if !c.inside {
		return
	}
	c.inside = false
	if k := c.k; k.desk.Out() {
		b := k.lock()
		b.checkIdle()
		b.Unlock()
	}
}
