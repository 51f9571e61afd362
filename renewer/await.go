package renewer

import (
	"context"
	"time"
)

const (
	// A waiter asks again this long after the key's TTL should have
	// ended: by then it has, though the server rounds to milliseconds.
	ttlSlack = time.Millisecond
	// The shortest pause between two questions that were not prompted by a wake-up, so that an
	// odd answer, such as a key that is held for 0 ms over and over, can't make a busy loop.
	leastPause = 2 * time.Millisecond
)

// see notes what the store answered while the lock was not ours, and whether our place may stand
// in its line by now; refuses those behind who do not wait; and has the store watch the name.
func (c *call) see(info holderInfo, queued bool) {
	c.seen = info
	k := c.k
	k.mu.Lock()
	q := k.queues.of(c.l.name)
	if q == nil && !c.request.try {
		q = k.queues.need(c.l.name)
	}
	if q == nil { // no caller waits, nor will this one
		k.mu.Unlock()
		return
	}
	q.seen = info
	if !c.request.try {
		// what was asked from it before and not answered now has not left the line
		q.place, q.queued = c.place, queued || info.err != nil && q.queued
	}
	refused := q.removeTries()
	watches := !c.request.try && info.err == nil && q.watch.begin()
	k.mu.Unlock()
	refuseAll(refused, info)
	if watches {
		k.watch(c.l.name, &q.watch)
	}
}

// changed makes the error for a caller to whom the store has shown another record than the one that
// its claim names. Those behind to whose claims the store would answer the same are refused too.
func (c *call) changed(record *Seen) error {
	c.seen = holderInfo{known: true, err: ErrRecordChanged}
	c.request.term.show(record)
	k := c.k
	k.mu.Lock()
	var refused []*waiter
	if q := k.queues.of(c.l.name); q != nil {
		refused = q.removeIf(func(w *waiter) bool {
			return w.term != nil && !w.term.follows(record)
		})
		for _, w := range refused {
			w.term.show(record)
		}
	}
	k.mu.Unlock()
	refuseAll(refused, c.seen)
	return c.refuse()
}

// watch has the store watch a name, until [watch.end]. If the store panics, the next head tries
// again.
func (k *Keeper) watch(name string, w *watch) {
	var stop func() // nil after a panic
	defer func() {
		k.mu.Lock()
		w.stop, w.on = stop, stop != nil
		k.mu.Unlock()
	}()
	wake := w.wake
	stop = k.store.Watch(name, func(err error) {
		if err != nil {
			k.fault("watch", name, err)
			return
		}
		select {
		case wake <- struct{}{}:
		default:
		}
	})
}

// watch is the watch of the caller's queue, nil while it has none.
func (c *call) watch() *watch {
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	if q := c.k.queues.of(c.l.name); q != nil {
		return &q.watch
	}
	return nil
}

// judge notes whether the wake-up that led to a question was false, or that the pause is over: the
// caller has the name, or it has changed hands since.
func (c *call) judge(woken, had bool) {
	switch w := c.watch(); {
	case w == nil:
	case had || c.freed:
		w.falseWakes = falseWakes{}
	case woken:
		w.falseWakes.add(c.k.clock.AtMost())
	}
}

// pause is how long to wait before the next question if nothing wakes the caller.
func (c *call) pause(failures *int) time.Duration {
	var pause time.Duration
	if c.seen.err != nil {
		pause = min(firstBackoff<<min(*failures, 8), lastBackoff)
		pause = pause/2 + jitter(pause/2)
		*failures++
	} else {
		*failures = 0
		pause = c.k.cfg.Poll*4/5 + jitter(c.k.cfg.Poll*2/5)
		if c.seen.ttl > 0 {
			pause = min(pause, c.seen.ttl+ttlSlack)
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
		wake = w.wake
	}
	end := c.k.clock.AtMost().Add(pause)
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			if woken { // the question answers those that came in the pause, too
				drain(w.wake)
			}
			return woken, nil
		case <-wake:
			now := c.k.clock.AtMost()
			if now >= w.falseWakes.until {
				return true, nil
			}
			wake = nil
			if w.falseWakes.until < end {
				woken = true
				timer.Reset(w.falseWakes.until.Sub(now))
			}
		case <-ctx.Done():
			return false, c.cancelled(ctx)
		case <-c.k.shutdown.closed:
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
