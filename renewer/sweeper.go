package renewer

import (
	"context"
	"slices"
	"time"

	"github.com/lockbeat/lockbeat/renewer/internal/timing"
)

// sweeper cleans up on one shard, so that a server that does not answer holds up no other's. It is
// there, and its goroutine runs, while it has orphans. Guarded by cleaner.mu.
type sweeper struct {
	c       *cleaner
	shard   int
	orphans []*orphan
	loop    *timing.Loop
}

// sweeperOf is the sweeper of a shard, which it starts if there is none. Under c.mu.
func (c *cleaner) sweeperOf(shard int) *sweeper {
	s := c.sweepers[shard]
	if s == nil {
		s = &sweeper{c: c, shard: shard, loop: timing.NewLoop(c.clock)}
		c.sweepers[shard] = s
		c.goroutines.run(func() { s.loop.Run(s.step) })
	}
	return s
}

// add is called under c.mu.
func (s *sweeper) add(o *orphan) {
	s.orphans = append(s.orphans, o)
	s.loop.WakeBy(o.due)
}

// step is a step of the sweeper's loop: it frees a batch that is due. The loop ends with the last
// orphan.
func (s *sweeper) step() (next instant) {
	c := s.c
	c.mu.Lock()
	batch, next := s.due(c.clock.Now())
	if len(s.orphans) == 0 {
		s.loop.Stop()
		delete(c.sweepers, s.shard)
	}
	c.mu.Unlock()
	if len(batch) > 0 {
		s.sweep(batch)
	}
	return next
}

// due picks a batch, or returns when the next is due. Under c.mu.
func (s *sweeper) due(now instant) (batch []*orphan, next instant) {
	next = never
	for _, o := range s.orphans {
		switch {
		case o.due > now:
			next = min(next, o.due)
		case len(batch) < freeMost:
			batch = append(batch, o)
			next = now // to look again when these are done
		}
	}
	return batch, next
}

// sweep asks the store to delete a batch, and forgets those that need not be tried again. They stay
// on the list meanwhile, so that Shutdown does not miss them.
func (s *sweeper) sweep(batch []*orphan) {
	c := s.c
	c.mu.Lock()
	sent := c.clock.Now()
	questions := holds(batch, sent)
	c.mu.Unlock()
	ctx := c.request(context.Background())
	if c.cfg.Observer != nil {
		ctx = c.cfg.Observer.CleanUp(ctx)
	}
	answers := c.store.Release(ctx, questions)

	var failed *Fault
	c.mu.Lock()
	now := c.clock.Now()
	for i, o := range batch {
		if a := answerTo(answers, i, len(batch), brokenAnswer); a.Status == StatusUnknown {
			o.retry(now)
			failed = &Fault{Doing: "clean up", Name: o.hold.Name, Err: orUnexplained(a.Err)}
		} else {
			o.deleted(sent)
		}
	}
	s.orphans = slices.DeleteFunc(s.orphans, func(o *orphan) bool { return o.done })
	sweeping := c.phase == phaseSweep
	c.mu.Unlock()
	// Shutdown ends the question, and then tries for itself.
	if failed != nil && sweeping && c.cfg.Observer != nil {
		c.cfg.Observer.Fault(*failed)
	}
}

// retry books that the store did not answer. Under cleaner.mu.
func (o *orphan) retry(now instant) {
	o.done = o.done || now > o.until // Shutdown has freed it meanwhile, or it has lapsed
	o.due = min(now.Add(cleanUpPause(o.tries)), o.until.Add(time.Millisecond))
	o.tries++
}

// deleted books that the store has answered a request sent at an instant. Under cleaner.mu.
func (o *orphan) deleted(sent instant) {
	if o.last <= sent {
		o.done = true
		return
	}
	// The lost request may still arrive and take the key again, or has before this was answered.
	o.tries, o.once = 0, true
	if soon := sent.Add(overtakenFor); !o.again && soon < o.last {
		o.due, o.again = soon, true
		return
	}
	o.due, o.last = o.last, 0
}
