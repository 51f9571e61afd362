package renewer

import (
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/renewer/internal/timing"
)

// Keeper acquires leases from one [Store] and keeps them alive. Two
// goroutines serve all of its leases: one sends heartbeats in batches, one
// ends what could not be renewed. All methods may be called concurrently.
type Keeper struct {
	store    Store
	shards   shards
	cfg      Config
	self     Holder
	clock    *timing.Clock
	observer Observer // nil if there is none

	requests *requests
	outages  outages

	cleaner *cleaner // of keys that no lease keeps

	closed     chan struct{} // closed when Shutdown begins
	stop       chan struct{} // closed when Shutdown has freed everything
	goroutines goroutines

	mu      sync.Mutex
	closing bool // Shutdown has begun
	// it has told every operation to stop: whoever begins now is told at once
	told bool
	// it has ended every question to the store: those asked now end at once
	halted bool
	ended  error // what it returns; not changed once stop is closed
	calls  int   // Acquire calls under way
	queues waitQueues
	leases []*Lease // every lease not released yet, lost ones included
	// closed when closing and neither calls nor leases are left; nil until Shutdown asks
	idle       chan struct{}
	heartbeats heartbeats
	// when belief in each lease ends, and when a question to the store has taken long enough
	deadlines *timing.DeadlineHeap[*Lease]

	stillRan int // operations that ran when Shutdown told them to stop

	endLoop *timing.Loop
}

// Config returns the configuration in force, with its defaults filled in.
func (k *Keeper) Config() Config { return k.cfg }

// spread is when the first heartbeat comes, at a random point of the interval's second
// half, so that leases taken together do not beat together; later ones keep that distance.
func (k *Keeper) spread() time.Duration { return k.cfg.Heartbeat/2 + jitter(k.cfg.Heartbeat/2) }

// keep puts a lease that has been granted on the books: among the leases, and where its end is
// awaited. Under k.mu.
func (k *Keeper) keep(l *Lease) {
	l.index = int32(len(k.leases))
	k.leases = append(k.leases, l)
	k.awaitEnd(l)
}

// awaitEnd has the end loop look at a lease when belief in it ends. Under k.mu.
func (k *Keeper) awaitEnd(l *Lease) {
	until := instant(l.until.Load())
	k.deadlines.Set(l, until)
	k.endLoop.WakeBy(until)
}

// forget takes a lease off the books when its operation has ended. Under k.mu.
func (k *Keeper) forget(l *Lease) {
	if l.index == nowhere {
		return
	}
	last := len(k.leases) - 1
	moved := k.leases[last]
	k.leases[l.index], moved.index = moved, l.index
	k.leases[last] = nil
	k.leases = k.leases[:last]
	l.index = nowhere
	k.checkIdle()
}

// leave takes l from the front of its queue, where the first waiter comes instead. It does nothing
// for a lease that is not there.
func (k *Keeper) leave(l *Lease) {
	k.mu.Lock()
	done := k.leaveLocked(l)
	k.mu.Unlock()
	done()
}

// leaveLocked is leave under k.mu. What it returns is to be called without the lock.
func (k *Keeper) leaveLocked(l *Lease) (done func()) {
	next, over := k.queues.leave(l)
	if next != nil {
		next.answer <- nil
	}
	if over != nil {
		return over.watch.end()
	}
	return nothing
}

// checkIdle tells Shutdown when nothing is left. Under k.mu.
func (k *Keeper) checkIdle() {
	if k.idle != nil && k.calls == 0 && len(k.leases) == 0 {
		close(k.idle)
		k.idle = nil
	}
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
func (k *Keeper) Outage(name string) time.Duration { return k.outages.of(k.shards.of(name)) }
