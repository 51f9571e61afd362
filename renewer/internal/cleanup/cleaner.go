// Package cleanup frees keys that may be ours although no lease keeps them:
// what a lost acquire, a failed release or a shutdown leaves behind. A key is
// deleted only if the token is ours. It knows no lease.
//
// Its invariant: from when a key is disowned until it is free, or has lapsed,
// the [Cleaner] counts it, so that a shutdown does not miss it. For that a
// caller disowns a key before it forgets the lease, or the call, that had it.
package cleanup

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/renewer/internal/asking"
	"github.com/lockbeat/lockbeat/renewer/internal/timing"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// Cleaner has a lock of its own, under which it calls nothing of others; so it
// may be called under a caller's lock where it does not ask the store for the
// shard.
type Cleaner struct {
	store  store.Store
	shards asking.Shards
	cfg    Config

	mu       sync.Mutex
	phase    phase
	sweepers map[int]*sweeper // by shard; none without orphans
	left     []*Orphan        // for a shutdown to free
}

// Config is what a [Cleaner] needs of others.
type Config struct {
	RequestTimeout time.Duration // of a question in a shutdown
	Clock          *timing.Clock
	Run            func(func())                     // starts a goroutine
	Limit          func() context.Context           // of a question in the background
	Fault          func(name string, failure error) // hears of a clean-up that failed
}

const (
	// freeMost is the most keys that are freed by one request.
	freeMost = 1000
	// firstCleanUpPause is the first; it doubles with each.
	firstCleanUpPause = 25 * time.Millisecond
	// lastCleanUpPause is the longest pause before a clean-up that failed is
	// tried again, whatever the TTL: others wait for the key, and ask as often.
	lastCleanUpPause = asking.ProbePause
)

// phase is what becomes of a key that is disowned.
type phase uint8

const (
	phaseSweep   phase = iota // a sweeper frees it in the background
	phaseCollect              // Shutdown will free it
	phaseOver                 // it is freed at once, by one request, as well as may be
)

// Orphan is a key that may be ours although no lease keeps it. What is exported
// never changes; the rest is guarded by Cleaner.mu.
type Orphan struct {
	Hold  store.Hold     // less Keep
	TTL   time.Duration  // of the key
	Least timing.Instant // until when the key is to be held in any case
	Freed func()         // called when it has been by a shutdown; may be nil

	due timing.Instant // when to try next
	// when a request that is still under way may take effect at the
	// latest: delete once more after it
	last  timing.Instant
	until timing.Instant // when the key's TTL is over, unless the server stood still
	tries int
	// deleted once: only a request that was lost on its way could bring it back
	once    bool
	repeats int  // how often it was deleted again, or is about to be, before last
	outage  bool // the store has not answered for a while
	done    bool
}

// standsStill is for how much longer than a TTL the store may be away so that
// what unanswered acquires bring back is cleaned up: a bound on what is kept.
const standsStill = 10 * time.Minute

// overtakenFor is how long after the first clean-up behind an unanswered
// acquire the second comes. On two connections the first may overtake the
// acquire: without a second one others would then wait, until the last
// clean-up, for a lock that no caller has. Behind an outage, when a server has
// much to catch up with, a third and a fourth come after 16 times as long each.
const overtakenFor = 5 * time.Millisecond

// New returns a cleaner of a store.
func New(s store.Store, cfg Config) *Cleaner {
	return &Cleaner{
		store: s, shards: asking.ShardsOf(s), cfg: cfg, sweepers: make(map[int]*sweeper),
	}
}

// Disown hands a key to the cleaner, to be deleted at once. unsettled is when
// an acquire was sent that was never answered, 0 if there is none. Behind one
// the key is deleted again after overtakenFor, and when it can't take effect
// any longer. It asks the store for the shard.
func (c *Cleaner) Disown(o *Orphan, unsettled timing.Instant) {
	o.due = c.cfg.Clock.AtMost()
	if settle := c.store.Settle(); unsettled != 0 && settle > 0 {
		o.last = unsettled.Add(settle) // over already, if that was long ago
	}
	o.until = max(o.due, o.last).Add(o.TTL)
	c.adopt(o)
}

// Revisit is Disown for a key that has been deleted: what is left to do is to
// delete it once more, if an unanswered acquire, sent at unsettled, may yet
// bring it back. asked is when the deletion was asked for, not when it was
// answered: the acquire may have brought the key back in between.
func (c *Cleaner) Revisit(o *Orphan, unsettled, asked timing.Instant) {
	last := unsettled.Add(c.store.Settle())
	if last <= asked {
		return
	}
	o.due, o.last, o.until, o.once = last, last, last.Add(o.TTL), true
	c.adopt(o)
}

func (c *Cleaner) adopt(o *Orphan) {
	if shard := c.shards.Of(o.Hold.Name); !c.keep(o, shard) {
		_, _ = c.ask(context.Background(), []*Orphan{o})
	}
}

// keep enters a key, and reports whether it will be freed later: else the
// caller is to free it now.
func (c *Cleaner) keep(o *Orphan, shard int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch c.phase {
	case phaseSweep:
		c.sweeperOf(shard).add(o)
	case phaseCollect:
		c.left = append(c.left, o)
	default:
		return false
	}
	return true
}

// Leave hands a key to the cleaner that Shutdown is to free. It may be called
// under the lock of the keeper's books.
func (c *Cleaner) Leave(o *Orphan) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o.until = c.cfg.Clock.Now().Add(o.TTL)
	c.left = append(c.left, o)
}

// Count is how many keys may be ours although no lease keeps them.
func (c *Cleaner) Count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.left)
	for _, s := range c.sweepers {
		n += len(s.orphans)
	}
	return n
}

// Collect ends the sweepers. What they have not freed yet, and what
// is disowned from now on, is left for Shutdown to free.
func (c *Cleaner) Collect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.phase = phaseCollect
	for _, s := range c.sweepers {
		c.left = append(c.left, s.orphans...)
		s.orphans = nil
		s.loop.Stop()
	}
}

// Close is the end: what is left is freed once more, and what is disowned from
// now on by the caller that disowns it. It returns how many keys were not
// freed, and why.
func (c *Cleaner) Close(ctx context.Context) (n int, failure error) {
	c.mu.Lock()
	c.phase = phaseOver
	left := c.left
	c.left = nil
	c.mu.Unlock()
	again, failure := c.ask(ctx, left)
	return len(again), failure
}

// holds are the questions to the store that free orphans, asked at an instant.
// Under c.mu.
func holds(orphans []*Orphan, now timing.Instant) []store.Hold {
	all := make([]store.Hold, len(orphans))
	for i, o := range orphans {
		all[i] = o.Hold
		all[i].Keep = KeepUntil(o.Least, now)
	}
	return all
}

// drop takes what is done off the list of what Shutdown is to free.
func (c *Cleaner) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = slices.DeleteFunc(c.left, func(o *Orphan) bool { return o.done })
}

// cleanUpPause doubles from 25 ms to half a second, with jitter.
func cleanUpPause(tries int) time.Duration {
	pause := min(firstCleanUpPause<<min(tries, 16), lastCleanUpPause)
	return pause/2 + timing.Jitter(pause/2)
}

// keepMost is the longest that a key is held for. A store adds it to its clock,
// and must not overflow.
const keepMost = 10 * 365 * 24 * time.Hour

// KeepUntil is how much longer a key is to be held until least, in whole
// milliseconds, rounded up.
func KeepUntil(least, now timing.Instant) time.Duration {
	return (min(max(0, least.Sub(now)), keepMost) + time.Millisecond - 1).Truncate(time.Millisecond)
}

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
			o.retry(now, c.store.Settle())
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

// retry books that the store did not answer. A server that stands still may
// carry out an unanswered acquire when it goes on, and only then does the key's
// TTL begin: so such a key is asked for until the store answers, and then again
// for as long as the acquire may lag behind. Under cleaner.mu.
func (o *Orphan) retry(now timing.Instant, settle time.Duration) {
	pause := cleanUpPause(o.tries)
	o.tries++
	if o.last != 0 && now <= o.until.Add(standsStill) {
		o.due = now.Add(pause)
		o.last = o.due.Add(settle)
		o.repeats, o.outage = 0, true
		return
	}
	o.done = o.done || now > o.until // Shutdown has freed it meanwhile, or it has lapsed
	o.due = min(now.Add(pause), o.until.Add(time.Millisecond))
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
	most := 1
	if o.outage {
		most = 3
	}
	if soon := sent.Add(overtakenFor << (4 * o.repeats)); o.repeats < most && soon < o.last {
		o.due = soon
		o.repeats++
		return
	}
	o.due, o.last = o.last, 0
}
