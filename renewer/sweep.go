package renewer

import (
	"context"
	"slices"
	"time"

	"github.com/lockbeat/lockbeat/renewer/internal/timing"
)

const (
	// freeMost is the most keys that are freed by one request.
	freeMost = 1000
	// lastSweepPause is the longest pause before a clean-up that failed is tried again, whatever
	// the TTL: others wait for the key.
	lastSweepPause = time.Second
)

// orphan is a key that may be ours although nobody wants it: an acquire whose answer was lost, a
// release that failed. A sweeper deletes it if the token is ours.
type orphan struct {
	hold  Hold
	least instant // until when the key is to be held in any case
	due   instant // when to try next
	// when a request that is still under way may take effect at the
	// latest: delete once more after it
	last  instant
	until instant // when the key's TTL is over in any case
	tries int
	freed bool // deleted once; waits for last
	done  bool
}

// disown hands a key to the sweeper, to be deleted at once. unsettled is
// when an acquire was sent that was never answered, 0 if there is none:
// then it is deleted once more when that can't take effect any longer.
func (k *Keeper) disown(l *Lease, hold Hold, unsettled instant) {
	now := k.clock.AtMost()
	o := newOrphan(l, hold, now, now.Add(l.ttl()))
	if settle := k.store.Settle(); unsettled != 0 && settle > 0 {
		o.last = unsettled.Add(settle)
		o.until = o.last.Add(l.ttl())
	}
	k.orphan(o, now)
}

// revisit is disown for a key that has been deleted: only what an unanswered
// acquire may yet bring back is left to do. freed is when that was asked for, not
// when it was answered: what the acquire has brought in between is there still.
func (k *Keeper) revisit(l *Lease, hold Hold, unsettled, freed instant) {
	last := unsettled.Add(k.store.Settle())
	if unsettled != 0 && last > freed {
		o := newOrphan(l, hold, last, last.Add(l.ttl()))
		o.freed = true
		k.orphan(o, k.clock.AtMost())
	}
}

func newOrphan(l *Lease, hold Hold, due, until instant) *orphan {
	o := &orphan{hold: hold, due: due, until: until}
	if l.rare != nil {
		o.least = l.rare.least
	}
	return o
}

// orphan gives an orphan to the sweeper of its shard. After Shutdown there is none: then it is
// freed here, by one request, as well as may be.
func (k *Keeper) orphan(o *orphan, now instant) {
	if !k.adopt(o, now) {
		_, _ = k.freeOnce(context.Background(), []leftover{o.leftover(now)})
	}
}

func (k *Keeper) adopt(o *orphan, now instant) bool {
	shard := k.shards.of(o.hold.Name)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over {
		return false
	}
	s := k.sweepers[shard]
	if s == nil {
		s = &sweeper{k: k, shard: shard, loop: timing.NewLoop(k.clock)}
		k.sweepers[shard] = s
		if !k.halted { // else Shutdown is about to take them
			k.goroutines.run(func() { s.loop.Run(s.step) })
		}
	}
	s.orphans = append(s.orphans, o)
	s.loop.WakeBy(o.due)
	return true
}

// takeOrphans takes all orphans from their sweepers. Under k.mu.
func (k *Keeper) takeOrphans() []*orphan {
	var all []*orphan
	for _, s := range k.sweepers {
		all = append(all, s.orphans...)
		s.orphans = nil
		s.loop.Stop()
	}
	clear(k.sweepers)
	return all
}

// sweeper cleans up on one shard, so that a server that does not answer holds up no other's. It is
// there, and its goroutine runs, while it has orphans. Guarded by Keeper.mu.
type sweeper struct {
	k       *Keeper
	shard   int
	orphans []*orphan
	loop    *timing.Loop
}

func (s *sweeper) step() (next instant) {
	k := s.k
	k.mu.Lock()
	batch, next := s.dueOrphans(k.clock.Now())
	if len(s.orphans) == 0 {
		s.loop.Stop()
		if k.sweepers[s.shard] == s {
			delete(k.sweepers, s.shard)
		}
	}
	k.mu.Unlock()
	if len(batch) > 0 {
		s.sweep(batch)
	}
	return next
}

// dueOrphans picks a batch, or tells when the next is due. Under k.mu.
func (s *sweeper) dueOrphans(now instant) (batch []*orphan, next instant) {
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

// sweep asks the store to delete a batch, and forgets those that need not be tried
// again. They stay on the list meanwhile, so that Shutdown does not miss them.
func (s *sweeper) sweep(batch []*orphan) {
	k := s.k
	sent := k.clock.Now()
	holds := make([]Hold, len(batch))
	for i, o := range batch {
		holds[i] = o.hold
		holds[i].Keep = keepUntil(o.least, sent)
	}
	ctx := k.request(context.Background())
	if k.observer != nil {
		ctx = k.observer.CleanUp(ctx)
	}
	answers := k.store.Release(ctx, holds)

	var failed error
	var failedName string
	k.mu.Lock()
	now := k.clock.Now()
	for i, o := range batch {
		switch a := answerTo(answers, i, len(batch), brokenAnswer); {
		case a.Status == StatusUnknown:
			o.done = now > o.until // it has lapsed
			o.due = min(now.Add(sweepPause(o.tries)), o.until.Add(time.Millisecond))
			o.tries++
			failed, failedName = orUnexplained(a.Err), o.hold.Name
		case o.last > sent:
			// Freed, but the lost request may still arrive and take
			// the key again, or has before this was answered.
			o.due, o.tries, o.last, o.freed = o.last, 0, 0, true
		default:
			o.done = true
		}
	}
	s.orphans = slices.DeleteFunc(s.orphans, func(o *orphan) bool { return o.done })
	halted := k.halted
	k.mu.Unlock()
	if failed != nil && !halted { // else Shutdown has ended the question, and tries for itself
		k.fault("clean up", failedName, failed)
	}
}

// sweepPause doubles from 25 ms to a second, with jitter.
func sweepPause(tries int) time.Duration {
	pause := min(firstBackoff<<min(tries, 16), lastSweepPause)
	return pause/2 + jitter(pause/2)
}
