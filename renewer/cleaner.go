package renewer

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/renewer/internal/timing"
)

// cleaner frees keys that may be ours although no lease keeps them: what a lost acquire, a failed
// release or Shutdown leaves behind. A key is deleted only if the token is ours.
//
// What it holds true: from when a key is disowned until it is free, or has lapsed, the cleaner
// counts it, so that Shutdown does not miss it. For that a caller disowns a key before it takes the
// lease, or the call, off the books: disown before forget.
//
// It knows no lease. It has a lock of its own, under which it calls nothing of others; so it may be
// called under Keeper.mu where it does not ask the store for the shard.
type cleaner struct {
	store      Store
	shards     shards
	clock      *timing.Clock
	cfg        Config
	goroutines *goroutines
	// request limits a question to the store. It ends when Shutdown ends all questions.
	request func(context.Context) context.Context

	mu       sync.Mutex
	phase    cleanerPhase
	sweepers map[int]*sweeper // by shard; none without orphans
	left     []*orphan        // for Shutdown to free
}

const (
	// freeMost is the most keys that are freed by one request.
	freeMost = 1000
	// lastCleanUpPause is the longest pause before a clean-up that failed is tried again, whatever
	// the TTL: others wait for the key.
	lastCleanUpPause = time.Second
)

// cleanerPhase is what becomes of a key that is disowned.
type cleanerPhase uint8

const (
	phaseSweep   cleanerPhase = iota // a sweeper frees it in the background
	phaseCollect                     // Shutdown will free it
	phaseOver                        // it is freed at once, by one request, as well as may be
)

// orphan is a key that may be ours although no lease keeps it. Its key never changes; the rest is
// guarded by cleaner.mu.
type orphan struct {
	hold  Hold          // less Keep
	ttl   time.Duration // of the key
	least instant       // until when the key is to be held in any case
	freed func()        // called when it has been by Shutdown; may be nil

	due instant // when to try next
	// when a request that is still under way may take effect at the
	// latest: delete once more after it
	last  instant
	until instant // when the key's TTL is over in any case
	tries int
	// deleted once: only a request that was lost on its way could bring it back
	once  bool
	again bool // deleted, and due after overtakenFor, or deleted then too
	done  bool
}

// overtakenFor is how long after the first clean-up behind an unanswered acquire the second comes.
// On two connections the first may overtake the acquire: then others would wait for a lock that no
// caller has until the last clean-up.
const overtakenFor = 5 * time.Millisecond

func newCleaner(
	store Store, cfg Config, clock *timing.Clock, g *goroutines,
	request func(context.Context) context.Context,
) *cleaner {
	return &cleaner{
		store: store, shards: shardsOf(store), clock: clock, cfg: cfg, goroutines: g,
		request: request, sweepers: make(map[int]*sweeper),
	}
}

// disown hands a key to the cleaner, to be deleted at once. unsettled is when an acquire was sent
// that was never answered, 0 if there is none. Behind one the key is deleted again after
// overtakenFor, and when it can't take effect any longer. It asks the store for the shard.
func (c *cleaner) disown(o *orphan, unsettled instant) {
	o.due = c.clock.AtMost()
	o.until = o.due.Add(o.ttl)
	if settle := c.store.Settle(); unsettled != 0 && settle > 0 {
		o.last = unsettled.Add(settle)
		o.until = o.last.Add(o.ttl)
	}
	c.adopt(o)
}

// revisit is disown for a key that has been deleted: only what an unanswered acquire, sent
// at unsettled, may yet bring back is left to do. asked is when the deletion was asked
// for, not when it was answered: what the acquire has brought in between is there still.
func (c *cleaner) revisit(o *orphan, unsettled, asked instant) {
	last := unsettled.Add(c.store.Settle())
	if last <= asked {
		return
	}
	o.due, o.until, o.once = last, last.Add(o.ttl), true
	c.adopt(o)
}

func (c *cleaner) adopt(o *orphan) {
	if shard := c.shards.of(o.hold.Name); !c.keep(o, shard) {
		_, _ = c.ask(context.Background(), []*orphan{o})
	}
}

// keep enters a key, and reports whether it will be freed later: else the caller is to free it now.
func (c *cleaner) keep(o *orphan, shard int) bool {
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

// leave hands a key to the cleaner that Shutdown is to free. It may be called under Keeper.mu.
func (c *cleaner) leave(o *orphan) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o.until = c.clock.Now().Add(o.ttl)
	c.left = append(c.left, o)
}

// count is how many keys may be ours although no lease keeps them.
func (c *cleaner) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.left)
	for _, s := range c.sweepers {
		n += len(s.orphans)
	}
	return n
}

// collect ends the sweepers. What they have not freed yet, and what
// is disowned from now on, is left for Shutdown to free.
func (c *cleaner) collect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.phase = phaseCollect
	for _, s := range c.sweepers {
		c.left = append(c.left, s.orphans...)
		s.orphans = nil
		s.loop.Stop()
	}
}

// close is the end: what is left is freed once more, and what is disowned from now on by the caller
// that disowns it. It returns how many keys were not freed, and why.
func (c *cleaner) close(ctx context.Context) (n int, failure error) {
	c.mu.Lock()
	c.phase = phaseOver
	left := c.left
	c.left = nil
	c.mu.Unlock()
	again, failure := c.ask(ctx, left)
	return len(again), failure
}

// holds are the questions to the store that free orphans, asked at an instant. Under c.mu.
func holds(orphans []*orphan, now instant) []Hold {
	all := make([]Hold, len(orphans))
	for i, o := range orphans {
		all[i] = o.hold
		all[i].Keep = keepUntil(o.least, now)
	}
	return all
}

// drop takes what is done off the list of what Shutdown is to free.
func (c *cleaner) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = slices.DeleteFunc(c.left, func(o *orphan) bool { return o.done })
}

// cleanUpPause doubles from 25 ms to a second, with jitter.
func cleanUpPause(tries int) time.Duration {
	pause := min(firstBackoff<<min(tries, 16), lastCleanUpPause)
	return pause/2 + timing.Jitter(pause/2)
}

// keepMost is the longest that a key is held for. A store adds it to its clock, and must not
// overflow.
const keepMost = 10 * 365 * 24 * time.Hour

// keepUntil is how much longer a key is to be held until least, in whole milliseconds, rounded up.
func keepUntil(least, now instant) time.Duration {
	return (min(max(0, least.Sub(now)), keepMost) + time.Millisecond - 1).Truncate(time.Millisecond)
}
