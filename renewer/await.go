package renewer

import (
	"context"
	"errors"
	"time"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/internal/asking"
	"github.com/lockbeat/lockbeat/renewer/internal/queue"
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
func unavailable(err error) queue.Seen { return queue.Seen{Known: true, Err: err} }

// see notes what the store answered while the lock was not ours, and whether our place may stand
// in its line by now; refuses those behind who do not wait; and has the store watch the name.
func (c *call) see(info queue.Seen, queued bool) {
	c.seen = info
	c.tell(info, queued)
}

// tell is see for those behind the caller.
func (c *call) tell(info queue.Seen, queued bool) {
	k := c.k
	k.mu.Lock()
	q := k.queues.Of(c.l.key())
	if c.aside {
		q = nil
	} else if q == nil && !c.request.Try {
		q = k.queues.Need(c.l.key())
	}
	if q == nil { // no caller waits, nor will this one from here
		k.mu.Unlock()
		return
	}
	q.Seen = info
	if !c.request.Try {
		// what was asked from it before and not answered now has not left the line
		q.Place, q.Queued = c.place, queued || info.Err != nil && q.Queued
	}
	refused := q.RemoveTries()
	watches := !c.request.Try && info.Err == nil && q.Watch.Begin()
	k.mu.Unlock()
	refuseAll(refused, info)
	if watches {
		k.watch(c.l.key(), &q.Watch)
	}
}

// watch has the store watch a name, until [queue.Watch.End]. If the store panics, the next head
// tries again.
func (k *Keeper) watch(name contract.Name, w *queue.Watch) {
	var stop func() // nil after a panic
	defer func() {
		k.mu.Lock()
		w.Began(stop)
		k.mu.Unlock()
	}()
	wake := w.Wake
	stop = k.store.Watch(name.Text, name.Limit, func(err error) {
		if err != nil {
			k.fault("watch", name.Text, err)
			return
		}
		select {
		case wake <- struct{}{}:
		default:
		}
	})
}

// watch is the watch of the caller's queue, nil while it has none.
func (c *call) watch() *queue.Watch {
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	if q := c.k.queues.Of(c.l.key()); q != nil {
		return &q.Watch
	}
	return nil
}

// judge notes whether the wake-up that led to a question was false, or that the pause is over: the
// caller has the name, or it has changed hands since.
func (c *call) judge(woken, had bool) {
	switch w := c.watch(); {
	case w == nil:
	case had || c.freed:
		w.False = queue.FalseWakes{}
	case woken:
		w.False.Add(c.k.clock.AtMost())
	}
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
	w := c.watch()
	var wake <-chan struct{}
	if w != nil {
		wake = w.Wake
	}
	end := c.k.clock.AtMost().Add(pause)
	timer := time.NewTimer(pause)
	defer timer.Stop()
	gone := c.storeGone()
	for {
		select {
		case <-timer.C:
			if woken { // the question answers those that came in the pause, too
				drain(w.Wake)
			}
			return woken, nil
		case <-wake:
			now := c.k.clock.AtMost()
			if now >= w.False.Until {
				return true, nil
			}
			wake = nil
			if w.False.Until < end {
				woken = true
				timer.Reset(w.False.Until.Sub(now))
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

func drain(wake <-chan struct{}) {
	select {
	case <-wake:
	default:
	}
}
