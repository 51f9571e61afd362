package renewer

import (
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/renewer/internal/asking"
	"github.com/lockbeat/lockbeat/renewer/internal/beat"
	"github.com/lockbeat/lockbeat/renewer/internal/books"
	"github.com/lockbeat/lockbeat/renewer/internal/cleanup"
	"github.com/lockbeat/lockbeat/renewer/internal/queue"
	"github.com/lockbeat/lockbeat/renewer/internal/timing"
)

// Which lock guards what
//
// Keeper.mu guards what a hand-off changes in one step, so that no other goroutine sees half of
// it: queues, books, questions, heartbeats, shutdown, and those fields of a Lease that say so.
// It is held when a method of these parts is called, and where a comment says "under k.mu".
//
// cleaner.mu guards the cleaner. The order is: Keeper.mu, then cleaner.mu.
//
// outages, Clock, Loop, requests, Lease.op and Lease.until are atomic. They need no lock.
//
// No lock is held while the store, an observer or a user's function is called. The exception is
// Sharded.Shard, under Keeper.mu, which must return at once.

// Keeper acquires leases from one [Store] and keeps them alive. Two goroutines serve all of its
// leases: one sends heartbeats in batches, one ends what was not renewed in time. All methods may
// be called concurrently.
type Keeper struct { // a coordinator of parts that own their state
	store    Store
	shards   asking.Shards
	cfg      Config
	self     Holder
	clock    *timing.Clock
	observer Observer // nil if there is none

	requests *asking.Requests
	outages  *asking.Outages

	cleaner    *cleanup.Cleaner // of keys that no lease keeps
	goroutines goroutines

	mu         sync.Mutex
	queues     queue.Queues[*Lease]
	books      books.Books[*Lease]
	questions  *timing.DeadlineHeap[*opContext] // to the store, by when each has taken long enough
	ends       *timing.Loop                     // keeps the time of questions and of leases
	heartbeats beat.Heartbeats[*Lease]
	shutdown   shutdown
}

// Config returns the configuration in force, with its defaults filled in.
func (k *Keeper) Config() Config { return k.cfg }

// leaveLocked takes l from the front of its queue, where the first waiter comes instead. It does
// nothing for a lease that is not there. done is to be called without the lock. place is the place
// that the store may have in its line and that no caller wants any more, 0 for none. Under k.mu.
func (k *Keeper) leaveLocked(l *Lease) (done func(), place uint64) {
	next, over := k.queues.Leave(l.name, l)
	if next != nil {
		next.Answer <- nil
	}
	if over == nil {
		return nothing, 0
	}
	if over.Queued {
		place = over.Place
	}
	return over.Watch.End(), place
}

// holder is what others read of a lease of this process.
func (k *Keeper) holder(l *Lease) Holder {
	h := k.self
	h.Operation, h.Trace = l.label.operation, l.label.trace
	return h
}

func (k *Keeper) fault(doing, name string, err error) {
	if k.observer != nil {
		k.observer.Fault(Fault{Doing: doing, Name: name, Err: err})
	}
}

// Outage returns for how long the store, or the shard of it that has the name, has failed to
// answer: how long ago the first request was sent that failed with none answered since. It returns
// 0 if there is none: a request that ran out of time beside others that were answered is a sign of
// load, not of an outage. It does not ask the store, and changes only as requests are made.
func (k *Keeper) Outage(name string) time.Duration { return k.outages.Of(k.shards.Of(name)) }

func nothing() {}
