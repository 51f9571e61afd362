package cleanup

import (
	"slices"
	"time"

	"github.com/lockbeat/lockbeat/renewer/internal/asking"
	"github.com/lockbeat/lockbeat/renewer/internal/timing"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// sweeper cleans up on one shard, so that a server that does not answer holds
// up no other's. It is there, and its goroutine runs, while it has orphans.
// Guarded by cleaner.mu.
type sweeper struct {
	c       *Cleaner
	shard   int
	orphans []*Orphan
	loop    *timing.Loop
}

// sweeperOf is the sweeper of a shard, which it starts if there is none. Under
// c.mu.
func (c *Cleaner) sweeperOf(shard int) *sweeper {
	s := c.sweepers[shard]
	if s == nil {
		s = &sweeper{c: c, shard: shard, loop: timing.NewLoop(c.cfg.Clock)}
		c.sweepers[shard] = s
		c.cfg.Run(func() { s.loop.Run(s.step) })
	}
	return s
}

// add is called under c.mu.
func (s *sweeper) add(o *Orphan) {
	s.orphans = append(s.orphans, o)
	s.loop.WakeBy(o.due)
}

// step is a step of the sweeper's loop: it frees a batch that is due. The loop
// ends with the last orphan.
func (s *sweeper) step() (next timing.Instant) {
	c := s.c
	c.mu.Lock()
	batch, next := s.due(c.cfg.Clock.Now())
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
func (s *sweeper) due(now timing.Instant) (batch []*Orphan, next timing.Instant) {
	next = timing.Never
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

// sweep asks the store to delete a batch, and forgets those that need not be
// tried again. They stay on the list meanwhile, so that Shutdown does not miss
// them.
func (s *sweeper) sweep(batch []*Orphan) {
	c := s.c
	c.mu.Lock()
	sent := c.cfg.Clock.Now()
	questions := holds(batch, sent)
	c.mu.Unlock()
	answers := c.store.Release(c.cfg.Limit(), questions)

	var failed *Orphan
	var failure error
	c.mu.Lock()
	now := c.cfg.Clock.Now()
	for i, o := range batch {
		if a := asking.AnswerTo(answers, i, len(batch)); a.Status == store.StatusUnknown {
			o.retry(now)
			failed, failure = o, a.Err
		} else {
			o.deleted(sent)
		}
	}
	s.orphans = slices.DeleteFunc(s.orphans, func(o *Orphan) bool { return o.done })
	sweeping := c.phase == phaseSweep
	c.mu.Unlock()
	// A shutdown ends the question, and then tries for itself.
	if failed != nil && sweeping {
		c.cfg.Fault(failed.Hold.Name, failure)
	}
}

// retry books that the store did not answer. Under cleaner.mu.
func (o *Orphan) retry(now timing.Instant) {
	o.done = o.done || now > o.until // Shutdown has freed it meanwhile, or it has lapsed
	o.due = min(now.Add(cleanUpPause(o.tries)), o.until.Add(time.Millisecond))
	o.tries++
}

// deleted books that the store has answered a request sent at an instant. Under
// cleaner.mu.
func (o *Orphan) deleted(sent timing.Instant) {
	if o.last <= sent {
		o.done = true
		return
	}
	// The lost request may still arrive and take the key again, or has before
	// this was answered.
	o.tries, o.once = 0, true
	if soon := sent.Add(overtakenFor); !o.again && soon < o.last {
		o.due, o.again = soon, true
		return
	}
	o.due, o.last = o.last, 0
}
