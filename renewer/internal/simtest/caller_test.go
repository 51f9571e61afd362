package simtest_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

// caller is one goroutine of a process that takes locks, one after the other.
type caller struct {
	w    *world
	p    *process
	dice dice
	ttl  time.Duration
}

func newCaller(w *world, p *process, i int) *caller {
	return &caller{
		w: w, p: p, dice: newDice(w.plan.seed, "caller", p.id, i), ttl: w.plan.cfg.TTL,
	}
}

func (c *caller) run() {
	for pass(c.dice.between(0, time.Millisecond)); !c.w.over(); {
		c.turn()
	}
}

// turn is one attempt to get a lock, and what is done under it.
func (c *caller) turn() {
	d := c.dice
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	if d.chance(.15) { // the caller's caller loses patience, before or after the lock is had
		defer time.AfterFunc(d.between(0, c.ttl/4), cancel).Stop()
	}
	life := c.p.life()
	if c.w.plan.several > 0 && d.chance(c.w.plan.several) {
		c.several(ctx, life)
		return
	}
	k := life.keeper
	name := fmt.Sprint("lock ", d.IntN(c.w.plan.names))
	begun := c.w.now()
	var l *renewer.Lease
	var manual time.Duration
	var err error
	wanted := want{life.link, name}
	c.w.ledger.enter(wanted, begun)
	tripped := trips(func() { l, manual, err = c.acquire(ctx, k, name) })
	c.w.ledger.leave(c.w, wanted, err == nil && !tripped)
	if tripped {
		c.w.trace.note(c.w.now(), "process %d wanted %q, and its observer panicked", c.p.id, name)
		if c.w.now()-begun >= patience {
			c.w.ledger.violate(hang, "an acquire that panicked took %v", c.w.now()-begun)
		}
		pass(d.between(1, 5*time.Millisecond))
		return
	}
	if err != nil {
		c.w.trace.note(c.w.now(), "process %d does not get %q: %v", c.p.id, name, kindOf(err))
		c.refused(ctx, err, c.w.now()-begun)
		pause := 20 * time.Millisecond
		if errors.Is(err, renewer.ErrShutdown) {
			pause = c.ttl / 4
		}
		pass(d.between(time.Microsecond, pause))
		return
	}
	b := c.w.ledger.begin(c.w, c.p.id, life.link, l, manual > 0)
	c.probe(b, l)
	c.hold(ctx, b, l, manual)
	c.w.tally.count(believed)
	if c.w.server.handed(b) {
		c.w.tally.count(handedOver)
	}
	c.w.ledger.end(c.w, b, c.w.now(), "release")
	c.w.ledger.returned(b, c.w.now())
	free := l.Release
	if d.chance(.05) { // as after a panic
		free = l.Abort
	}
	trips(func() { err = free(ctx) })
	var lost *renewer.LostError
	if err != nil && !errors.As(err, &lost) && !errors.Is(err, renewer.ErrUnavailable) {
		c.w.ledger.violate(contract, "a release failed by %v", err)
	}
	if err := free(ctx); err != nil {
		c.w.ledger.violate(contract, "a second release failed by %v", err)
	}
	// never at once: see the package documentation
	pass(d.between(1, pick(d, time.Microsecond, 5*time.Millisecond)))
}

// patience is longer than any caller has to wait, even in a storm.
// One that waits twice as long is not answered at all.
const patience = 3 * time.Hour

// acquire asks in one of many ways, and tells for how long the lease
// lives without a heartbeat, if it has none.
func (c *caller) acquire(
	ctx context.Context, k *renewer.Keeper, name string,
) (l *renewer.Lease, manual time.Duration, err error) {
	d := c.dice
	r := renewer.Request{Name: name, MaxWait: patience}
	if c.w.plan.limit > 0 {
		r.Limit = func() int { return c.w.plan.limit }
	}
	if c.w.plan.mostWait > 0 {
		if c.w.plan.impatient && c.p.id == 0 {
			r.MaxWait = impatience
		}
		l, err = k.Acquire(ctx, r)
		return l, 0, err
	}
	least := time.Duration(0)
	switch roll := d.Float64(); {
	case roll < .1:
		r.Try, r.MaxWait = true, 0
	case roll < .3:
		r.MaxWait = d.between(0, 2*c.ttl)
		r.Try = r.MaxWait == 0
	case roll < .35:
		r.MaxWaiters = 2
	case roll < .4:
		manual = d.between(c.ttl, 3*c.ttl).Truncate(time.Millisecond)
		manual = max(manual, c.ttl+time.Millisecond) // by its TTL inspect knows that it may lapse
		r.Manual = manual
	case roll < .42:
		least = d.between(0, c.ttl/2)
	}
	l, err = k.Acquire(ctx, r)
	if err == nil {
		l.HoldAtLeast(least)
	}
	return l, manual, err
}

// refused looks whether there was reason for it.
func (c *caller) refused(ctx context.Context, err error, took time.Duration) {
	switch {
	case errors.Is(err, renewer.ErrBusy), errors.Is(err, renewer.ErrUnavailable),
		errors.Is(err, renewer.ErrShutdown):
		c.w.tally.count(refusedCall)
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		c.w.tally.count(cancelled)
	default:
		c.w.ledger.violate(contract, "an acquire failed by %v", err)
	}
	if took >= patience {
		c.w.ledger.violate(hang, "an acquire gave up after %v: %v", took, err)
	}
}

// hold works under a lease for a random time, or until it is lost. Some work on
// after that.
func (c *caller) hold(ctx context.Context, b *belief, l *renewer.Lease, manual time.Duration) {
	d := c.dice
	last := c.w.now() + c.work()
	stubborn := d.chance(.5)
	for left := last - c.w.now(); left > 0; left = last - c.w.now() {
		select {
		case <-l.Context().Done():
			if !stubborn {
				return
			}
			pass(left)
		case <-time.After(d.between(0, 2*left)):
			c.probe(b, l)
			if manual > 0 {
				c.extend(ctx, b, l, d.between(c.ttl, 3*c.ttl))
			}
		}
	}
	if l.Err() != nil && l.Valid() {
		c.w.ledger.violate(revived, "%v, which says that it is valid", b)
	}
	if !l.Valid() {
		return
	}
	c.probe(b, l)
}

// impatience is how long a caller waits in a process in which the head leaves
// all the time.
const impatience = 100 * time.Millisecond

// work is how long one piece of it takes: mostly little.
func (c *caller) work() time.Duration {
	if c.w.plan.mostWait > 0 {
		return c.dice.between(0, 25*time.Millisecond)
	}
	switch roll := c.dice.Float64(); {
	case roll < .6:
		return c.dice.between(0, 3*time.Millisecond)
	case roll < .75:
		return c.dice.between(0, 100*time.Millisecond)
	case roll < .95:
		return c.dice.between(0, c.ttl)
	default:
		return c.dice.between(0, 4*c.ttl)
	}
}

func (c *caller) extend(ctx context.Context, b *belief, l *renewer.Lease, by time.Duration) {
	err := l.Extend(ctx, by)
	if err == nil {
		c.w.tally.count(extended)
		c.probe(b, l)
		return
	}
	var lost *renewer.LostError
	if !errors.As(err, &lost) && !errors.Is(err, renewer.ErrUnavailable) &&
		(ctx.Err() == nil || !errors.Is(err, ctx.Err())) {
		c.w.ledger.violate(contract, "an extension failed by %v", err)
	}
}

// probe compares what a lease promises with what the server will keep.
func (c *caller) probe(b *belief, l *renewer.Lease) {
	left := l.Remaining()
	if left <= 0 || b.link.dead.Load() {
		return
	}
	now := c.w.now()
	if l.Err() != nil {
		c.w.ledger.violate(revived, "%v, which says that it is lost, and valid for %v", b, left)
	}
	if lapse := c.w.server.lapse(b, now); lapse-now < left+c.w.keeperConfig().Margin {
		c.w.ledger.violate(outside,
			"%v: at %v valid for %v and the margin, but the key lapses at %v", b, now, left, lapse)
	}
}

// kindOf is an error without what differs each time, such as the number of this
// process.
func kindOf(err error) error {
	if e, ok := errors.AsType[*renewer.Error](err); ok {
		return e.Kind
	}
	return err
}
