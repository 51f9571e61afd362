package renewer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/internal/asking"
	"github.com/lockbeat/lockbeat/renewer/internal/desk"
	"github.com/lockbeat/lockbeat/renewer/internal/lease"
	"github.com/lockbeat/lockbeat/renewer/internal/timing"
)

// A caller waits in two ways: behind the front of its name, until it comes
// there (wait); and at the front, between two questions to the store (await).

// wait returns when the caller is at the front of its name, and reports whether
// it is there as the holder, to whom the lock was handed. It counts the call
// in.
func (c *call) wait(ctx context.Context) (handed bool, err error) {
	w, err := c.join(ctx, false)
	if w == nil || err != nil {
		return false, err
	}
	s, over := standing{c, w}, false
	defer func() {
		if !over { // the store or an observer has panicked
			s.stepOut()
		}
	}()
	if c.newest != nil {
		c.newest.endFront(c.l)
	}
	handed, err = s.wait(ctx)
	over = true
	return handed, err
}

// standing is a call that stands behind the front.
type standing struct {
	c *call
	w *desk.Waiter[*Lease]
}

// wait is call.wait behind the front.
func (s standing) wait(ctx context.Context) (handed bool, err error) {
	c, w := s.c, s.w
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
				s.noteAfter()
				if over := ctx.Err() != nil || c.k.clock.AtMost() >= c.until; over && !w.Handed {
					b := c.k.lock() // it will not ask
					s.seeBefore(b)
					b.Unlock()
				}
				return w.Handed, nil
			}
			c.seen = *refusal
			return false, c.refuse()
		case <-timeout:
			s.stepOut()
			err = c.refuse()
		case <-c.newest.nudged():
			if err = c.newest.check(ctx, c); err != nil {
				s.stepOut()
			}
		case <-gone:
			s.stepOut()
			err = c.refuseAway()
		case <-ctx.Done():
			s.stepOut()
			err = c.cancelled(ctx)
		case <-c.k.shutdown.turnsAway(c.request.Nested):
			s.stepOut()
			err = c.fail(ErrShutdown, nil)
		}
	}
	return false, err
}

// noteAfter notes, for observers, who of this process had the lock until the
// caller came to the front, if the one before it had; or that the store was
// asked for a slot of the caller's own.
func (s standing) noteAfter() {
	c, l := s.c, s.w.After
	if l == nil {
		c.attempts++
		return
	} else if c.k.observer == nil {
		return
	}
	defer c.k.lock().Unlock() // its operation may run on, if it was lost
	if l.belief.Fence != 0 {
		c.behind = desk.Seen{Known: true, Holder: c.k.holder(l), Since: l.belief.Since()}
	}
}

// seeBefore notes who of this process had the lock until now, if any had, for a
// call whose time is over as it comes to the front.
func (s standing) seeBefore(*books) {
	c, l := s.c, s.w.After
	if l == nil || l.belief.Fence == 0 {
		return
	}
	held := c.k.clock.AtMost().Sub(l.belief.Since())
	c.seen = desk.Seen{Known: true, Holder: c.k.holder(l), HeldFor: held, Since: l.belief.Since()}
	c.own = l.belief.Since() <= c.begun
}

// join gives the caller its turn: at the front, or to ask for a slot aside,
// which is nil; or behind the front, as a waiter. It refuses one who may not
// wait where that is known already. front is for one who comes only if it need
// not wait: errBehind.
func (c *call) join(ctx context.Context, front bool) (*desk.Waiter[*Lease], error) {
	k, l, r := c.k, c.l, &c.request
	w := desk.Wish{
		Now: c.begun, Try: r.Try, Limit: r.Limit != nil, Refused: c.attempts > 0, Nested: r.Nested,
		Inside: c.inside, Front: front, Most: r.MaxWaiters, Plain: l.belief.Plain(),
		MaxHold: r.ownMaxHold(), LimitTo: r.Limit, Rank: r.Rank,
	}
	if w.Trouble = k.outages.Troubled(); w.Trouble {
		w.Away = c.away() != nil
	}
	if c.newest != nil {
		if ctx.Err() != nil { // one that is over before it has begun takes no place
			return nil, c.cancelled(ctx)
		}
		w.Newest = c.newest.Newest
	}
	seat := k.desk.Join(l.key(), l, w)
	switch seat.Turn {
	case desk.Ask:
		c.inside = true
		return nil, nil
	case desk.Aside:
		c.inside, c.aside = true, true
		return nil, nil
	case desk.Behind:
		return nil, errBehind
	case desk.Closed:
		return nil, c.fail(ErrShutdown, nil)
	case desk.Away:
		return nil, c.refuseAway()
	case desk.Outranked:
		return nil, c.fail(ErrBusy, ErrReplaced)
	default:
		return c.joined(seat)
	}
}

// errBehind is for a call that comes only if it is at the front.
var errBehind = errors.New("lockbeat: another caller is at the front")

// joined is join for a call that finds another at the front.
func (c *call) joined(seat desk.Seat[*Lease]) (*desk.Waiter[*Lease], error) {
	c.contended = true
	b := c.k.lock()
	seen := b.seen(seat.Last)
	b.Unlock()
	switch seat.Turn {
	case desk.Taken:
		c.seen = seen
		return nil, c.refuse()
	case desk.Full:
		if seen.Err == nil {
			c.seen = seen
		}
		return nil, c.fail(ErrBusy, fmt.Errorf(
			"%w: MaxWaiters (%d) callers of this process stand in it", ErrQueueFull,
			c.request.MaxWaiters))
	default:
		c.inside = true
		if seat.Last.Known && seat.Last.Has != nil {
			c.behind = seen
		}
		return seat.Waiter, nil
	}
}

// stepOut takes a waiter out of the line. If it has come to the front in the
// same moment, the next in line comes there.
func (s standing) stepOut() {
	c, w, k := s.c, s.w, s.c.k
	b := k.lock() // no hand-over is half done
	out := k.desk.StepOut(w)
	s.seeBefore(b)
	if out.Waited {
		if last := out.Last; last.Known || last.Seen.Known || !last.Had && !c.behind.Known {
			c.seen = b.seen(last)
		} // else it has waited for a holder, and the next one is asking
		if l := out.Last.Has; l != nil {
			c.own = l.belief.Since() <= c.begun
		}
	}
	b.Unlock()
	if out.Handed {
		k.discard(w.L, desk.Place{}, 0)
		return
	}
	out.Left.End()
	k.giveUpPlace(w.L, &out.Left) // of a front before
}

// giveUpPlace has the store pass over a place that nobody here wants any more,
// from which l was to ask, and free what it has granted to it.
func (k *Keeper) giveUpPlace(l *Lease, left *desk.Left) {
	if left.Place.Number == 0 {
		return
	}
	owner := lease.Owner(left.Place.Owner)
	if l.label.limited { // an earlier question of the caller's own may be under way
		owner = lease.NewOwner()
	}
	hold := l.keyOf(&owner)
	hold.Place = left.Place.Number
	k.cleaner.Disown(l.orphan(hold), left.Unsettled)
}

// claimPassedOn reports whether what l has claimed is the next one's here, or
// goes with its place.
func (l *Lease) claimPassedOn(left *desk.Left) bool { return left.Passed && !l.label.limited }

const (
	// A waiter asks again this long after the key's TTL should have
	// ended: by then it has, though the server rounds to milliseconds.
	ttlSlack = time.Millisecond
	// The shortest pause between two questions that were not prompted by a
	// wake-up, so that an odd answer, such as a key that is held for 0 ms over
	// and over, can't make a busy loop.
	leastPause = 2 * time.Millisecond

	// Pauses after the store could not be asked: doubled each time, with
	// jitter.
	firstBackoff = 25 * time.Millisecond
	lastBackoff  = asking.ProbePause
)

// see notes what the store answered while the lock was not ours, and whether
// our place may stand in its line by now; refuses those behind who do not wait;
// and has the store watch the name.
func (c *call) see(info desk.Seen, queued bool) {
	c.seen = info
	c.tell(info, queued)
}

// tell is see for those behind the caller.
func (c *call) tell(info desk.Seen, queued bool) {
	if c.aside {
		return
	}
	w := c.k.desk.Refused(c.l.key(), c.l, desk.Answer{
		Seen: info, Try: c.request.Try, Place: c.place, Queued: queued,
	})
	if w != nil {
		c.k.watch(c.l.key(), w)
	}
}

// watch has the store watch a name, until nobody here waits for it. If the
// store panics, the next front tries again.
func (k *Keeper) watch(name contract.Name, w *desk.Watch) {
	var stop func() // nil after a panic
	defer func() { k.desk.Began(w, stop) }()
	stop = k.store.Watch(name.Text, name.Limit, func(err error) {
		if err != nil {
			k.fault("watch", name.Text, err)
			return
		}
		w.Wake()
	})
}

// pause is how long to wait before the next question if nothing wakes the
// caller.
func (c *call) pause(failures *int) time.Duration {
	var pause time.Duration
	if c.seen.Err != nil {
		pause = min(firstBackoff<<min(*failures, 8), lastBackoff)
		pause = pause/2 + timing.Jitter(pause/2)
		*failures++
	} else {
		*failures = 0
		pause = c.k.cfg.Poll*4/5 + timing.Jitter(c.k.cfg.Poll*2/5)
		if c.seen.TTL > 0 {
			pause = min(pause, c.seen.TTL+ttlSlack)
		}
		pause = max(pause, leastPause)
	}
	if c.until != never {
		pause = min(pause, c.until.Sub(c.k.clock.AtMost()))
	}
	return pause
}

// await returns when the caller is to ask again, after pause at the latest, and
// whether a wake-up is why.
func (c *call) await(ctx context.Context, pause time.Duration) (woken bool, err error) {
	wake, calm := c.k.desk.Listen(c.l.key())
	end := c.k.clock.AtMost().Add(pause)
	timer := time.NewTimer(pause)
	defer timer.Stop()
	gone := c.storeGone()
	for {
		select {
		case <-timer.C:
			return woken, nil
		case <-wake:
			now := c.k.clock.AtMost()
			if now >= calm {
				return true, nil
			}
			wake = nil
			if calm < end {
				woken = true
				timer.Reset(calm.Sub(now))
			}
		case <-c.newest.nudged():
			if err := c.newest.check(ctx, c); err != nil {
				return false, err
			}
		case <-gone:
			return false, c.refuseAway()
		case <-ctx.Done():
			return false, c.cancelled(ctx)
		case <-c.k.shutdown.turnsAway(c.request.Nested):
			return false, c.fail(ErrShutdown, nil)
		}
	}
}
