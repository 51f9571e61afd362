package renewer

import (
	"context"
	"slices"
	"time"
)

// freeMost is the most keys that are freed by one request.
const freeMost = 1000

// orphan is a key that may be ours although nobody wants it: an acquire whose answer was lost, a release that failed. The
// sweeper deletes it if the token is ours.
type orphan struct {
	hold  Hold
	least instant // until when the key is to be held in any case
	due   instant // when to try next
	last  instant // when a request that is still under way may take effect at the latest: delete once more after it
	until instant // when the key's TTL is over in any case
	tries int
	freed bool // deleted once; waits for last
	done  bool
}

// disown hands a key to the sweeper, to be deleted at once. unsettled is when an acquire was sent that was never answered, 0 if
// there is none: then it is deleted once more when that can't take effect any longer.
func (k *Keeper) disown(l *Lease, hold Hold, unsettled instant) {
	now := k.clock.atMost()
	o := newOrphan(l, hold, now, now.add(l.ttl()))
	if settle := k.store.Settle(); unsettled != 0 && settle > 0 {
		o.last = unsettled.add(settle)
		o.until = o.last.add(l.ttl())
	}
	k.orphan(o, now)
}

// revisit is disown for a key that has been deleted: only what an unanswered acquire may yet bring back is left to do. freed is when
// that was asked for, not when it was answered: what the acquire has brought in between is there still.
func (k *Keeper) revisit(l *Lease, hold Hold, unsettled, freed instant) {
	last := unsettled.add(k.store.Settle())
	if unsettled != 0 && last > freed {
		o := newOrphan(l, hold, last, last.add(l.ttl()))
		o.freed = true
		k.orphan(o, k.clock.atMost())
	}
}

func newOrphan(l *Lease, hold Hold, due, until instant) *orphan {
	o := &orphan{hold: hold, due: due, until: until}
	if l.rare != nil {
		o.least = l.rare.least
	}
	return o
}

func (k *Keeper) orphan(o *orphan, now instant) {
	k.mu.Lock()
	defer k.mu.Unlock()
	select {
	case <-k.stop:
		return // Shutdown has freed what it could
	default:
	}
	k.orphans = append(k.orphans, o)
	if !k.sweeper {
		k.sweeper, k.sweepWaker.at = true, now
		k.run(k.sweepLoop)
		return
	}
	k.sweepWaker.wakeBy(o.due)
}

// sweepLoop runs while there are orphans.
func (k *Keeper) sweepLoop() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		k.mu.Lock()
		now := k.clock.now()
		var batch []*orphan
		if k.sweepWaker.due(now) {
			batch, k.sweepWaker.at = k.dueOrphans(now)
		}
		next := k.sweepWaker.at
		if len(k.orphans) == 0 {
			k.sweeper = false
			k.mu.Unlock()
			return
		}
		k.mu.Unlock()
		if len(batch) > 0 {
			k.sweep(batch)
			continue
		}
		timer.Reset(untilNext(next, now))
		select {
		case <-timer.C:
		case <-k.sweepWaker.c:
		case <-k.stop:
			return
		}
	}
}

// dueOrphans picks a batch, or tells when the next is due. Under k.mu.
func (k *Keeper) dueOrphans(now instant) (batch []*orphan, next instant) {
	next = never
	for _, o := range k.orphans {
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

// sweep asks the store to delete a batch, and forgets those that need not be tried again. They stay on the list meanwhile, so
// that Shutdown does not miss them.
func (k *Keeper) sweep(batch []*orphan) {
	sent := k.clock.now()
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
	now := k.clock.now()
	for i, o := range batch {
		switch a := answerTo(answers, i, len(batch), brokenAnswer); {
		case a.Status == Unknown:
			o.due = now.add(k.sweepPause(o.tries))
			o.tries++
			o.done = o.due > o.until // it has lapsed by then
			failed, failedName = orUnexplained(a.Err), o.hold.Name
		case o.last > sent:
			// Freed, but the lost request may still arrive and take the key again, or has before this was answered.
			o.due, o.tries, o.last, o.freed = o.last, 0, 0, true
		default:
			o.done = true
		}
	}
	k.orphans = slices.DeleteFunc(k.orphans, func(o *orphan) bool { return o.done })
	k.mu.Unlock()
	if failed != nil {
		k.fault("clean up", failedName, failed)
	}
}

// sweepPause doubles from 25 ms to RequestTimeout, with jitter.
func (k *Keeper) sweepPause(tries int) time.Duration {
	pause := min(firstBackoff<<min(tries, 16), max(k.cfg.RequestTimeout, firstBackoff))
	return pause/2 + jitter(pause/2)
}
