package renewer

import (
	"sync"

	"github.com/lockbeat/lockbeat/renewer/internal/beat"
	"github.com/lockbeat/lockbeat/renewer/internal/desk"
	"github.com/lockbeat/lockbeat/renewer/internal/timing"
)

// Which lock guards what
//
// The books are what is believed. One lock guards them, and those fields of a
// Lease that say so: Keeper.lock takes it and gives the books, Unlock gives both
// back. So a function that is given the books, or is a method of what is in
// them, runs under that lock.
//
// A lease is on the books from its grant until its key is free, or the
// cleaner's: it is in leases then. So is one that the store is asked for, while
// the end loop keeps the time of the question. The instant at which a lease
// stands there is never later than what is next due for it.
//
// The desk and the cleaner have locks of their own, which are taken last.
//
// outages, Clock, Loop, requests, Lease.op and until when belief in a lease
// lasts are atomic. They need no lock.
//
// No lock is held while the store, an observer or a user's function is called.
// The exception is Sharded.Shard, under the books, which must return at once.

// books are what a keeper believes of its leases, what it plans for them, and
// how far its shutdown has come.
type books struct {
	k          *Keeper
	ends       *timing.Loop          // of leases, questions and outages
	leases     *timing.Wheel[*Lease] // by when the end loop is to attend to each
	heartbeats beat.Heartbeats[*Lease]
	breakWatch breakWatch

	phase    phase
	stillRan int           // operations that ran when they were told to stop
	idle     chan struct{} // closed when neither calls nor leases are left; nil then
}

// phase is how far a shutdown has come. They follow each other in this order.
type phase uint8

const (
	phaseRun   phase = iota
	phaseDrain       // newcomers are refused, and operations are waited for
	phaseTell        // every operation was told to stop: one that begins now is told at once
	phaseFree        // questions to the store have ended: those asked now end at once
)

// locked keeps the books from all who don't have the lock.
type locked struct {
	mu    sync.Mutex
	books books
}

// lock returns the books, until their Unlock.
func (k *Keeper) lock() *books {
	k.locked.mu.Lock()
	return &k.locked.books
}

// Unlock gives the books back.
func (b *books) Unlock() { b.k.locked.mu.Unlock() }

// attendBy has the end loop attend to a lease when something is due, or before;
// and puts it on the books, unless it is asked for. A heartbeat moves the end
// of a lease on, but not its place here: so a lease is looked at in vain once
// in a TTL. An instant that is not near is rounded down to a multiple of
// TTL/256, so that leases share it: else each of very many would wake the loop
// at one of its own.
func (b *books) attendBy(l *Lease, now instant) {
	k := b.k
	at := min(l.belief.NextDue(&k.rules), now.Add(k.cfg.TTL))
	if shared := at - at%instant(k.cfg.TTL/256); shared > now {
		at = shared
	}
	b.leases.Set(l, at)
	b.ends.WakeBy(at)
}

// strike takes a lease off the books. Its key is free, or the cleaner's.
func (b *books) strike(l *Lease) {
	b.leases.Remove(l)
	b.checkIdle()
}

// checkIdle notes that neither calls nor leases are left, if Shutdown waits for
// that.
func (b *books) checkIdle() {
	if b.phase != phaseRun && b.idle != nil && b.leases.Len() == 0 && b.k.desk.CloseIfEmpty() {
		close(b.idle)
		b.idle = nil
	}
}

// plan enters a lease's next heartbeat, in place of the one planned before. It
// asks the store for the shard.
func (b *books) plan(l *Lease, at instant) { b.heartbeats.Plan(l, b.k.outages.ShardOf(l.name), at) }

// behind counts the callers who wait for a lease that is held.
func (b *books) behind(l *Lease) int {
	if !l.belief.Held() {
		return 0
	}
	return b.k.desk.Waiting(l.key(), l)
}

// seen is what a caller behind the front of a name hears when it may not wait.
func (b *books) seen(last desk.Last[*Lease]) desk.Seen {
	switch {
	case last.Has != nil:
		return b.seenOf(last.Has)
	case last.Seen.Known:
		return last.Seen
	default:
		return unavailable(errNoAnswer)
	}
}

// seenOf is what others hear of a lease of this process.
func (b *books) seenOf(l *Lease) desk.Seen {
	now := b.k.clock.AtMost()
	return desk.Seen{
		Known: true, Holder: b.k.holder(l), HeldFor: now.Sub(l.belief.Since()),
		Since: l.belief.Since(), TTL: max(0, l.belief.Left(now)),
	}
}

// unavailable is what was last seen of a lock if the store could not be asked.
func unavailable(err error) desk.Seen { return desk.Seen{Known: true, Err: err} }
