package renewer

import (
	"context"
	"errors"
	"time"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/internal/asking"
	"github.com/lockbeat/lockbeat/renewer/internal/desk"
	"github.com/lockbeat/lockbeat/renewer/internal/timing"
)

const (
	// A waiter asks again this long after the key's TTL should have
	// ended: by then it has, though the server rounds to milliseconds.
	ttlSlack = time.Millisecond
	// The shortest pause between two questions that were not prompted by a wake-up, so that an
	// odd answer, such as a key that is held for 0 ms over and over, can't make a busy loop.
	leastPause = 2 * time.Millisecond

	// Pauses after the store could not be asked: doubled each time, with jitter.
	firstBackoff = 25 * time.Millisecond
	lastBackoff  = asking.ProbePause
)

// errNoAnswer is what callers get to hear who run out of time before
// anybody knows who has the lock.
var errNoAnswer = errors.New("the store has not answered in time")

// unavailable is what was last seen of a lock if the store could not be asked.
func unavailable(err error) desk.Seen { return desk.Seen{Known: true, Err: err} }

// see notes what the store answered while the lock was not ours, and whether our place may stand
// in its line by now; refuses those behind who do not wait; and has the store watch the name.
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

// watch has the store watch a name, until nobody here waits for it. If the store panics, the next
// front tries again.
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

// pause is how long to wait before the next question if nothing wakes the caller.
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

// await returns when the caller is to ask again, after pause at the latest, and whether a wake-up
// is why.
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
			if err := c.checkNewest(ctx); err != nil {
				return false, err
			}
		case <-gone:
			return false, c.refuseAway()
		case <-ctx.Done():
			return false, c.cancelled(ctx)
		case <-c.turnedAway():
			return false, c.fail(ErrShutdown, nil)
		}
	}
}
