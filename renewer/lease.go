package renewer

import (
	"context"
	"maps"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/internal/beat"
	"github.com/lockbeat/lockbeat/renewer/internal/cleanup"
	"github.com/lockbeat/lockbeat/renewer/internal/lease"
	"github.com/lockbeat/lockbeat/renewer/internal/timing"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// Lease is a lock held, renewed until Release or until it is lost. All methods
// may be called concurrently.
type Lease struct {
	k     *Keeper
	name  string
	label *label
	op    lease.Operation

	// Guarded by the books' lock, other than until when belief lasts.
	belief lease.Belief[LostError]
	beat   beat.Place // where its next heartbeat is planned
}

// label is what others hear of a lease besides its name. It never changes.
type label struct {
	limited   bool // it is a slot of a limit
	operation string
	trace     string // what the observer made of the claim
}

// labels are those of the operations that calls have named, so that no lease
// costs one of its own. Operations are few, and one beyond the most that are
// kept has a label for each call.
type labels struct {
	known atomic.Pointer[map[label]*label]
}

// mostLabels is a bound on what a caller with an operation of its own for each
// call can cost.
const mostLabels = 256

// of returns the label of an operation.
func (s *labels) of(operation string, limited bool) *label {
	known := s.known.Load()
	wanted := label{limited: limited, operation: operation}
	if known != nil {
		if found := (*known)[wanted]; found != nil {
			return found
		} else if len(*known) >= mostLabels {
			return &label{limited: limited, operation: operation}
		}
	}
	// not a part of a larger string
	added := &label{limited: limited, operation: strings.Clone(operation)}
	more := map[label]*label{*added: added}
	if known != nil {
		maps.Copy(more, *known)
	}
	s.known.CompareAndSwap(known, &more) // or else the next call adds it
	return added
}

// newLease makes a lease that has not been granted yet, and room for the
// context of its operation if one will be needed: in one allocation.
func (k *Keeper) newLease(
	ctx context.Context, name string, label *label,
) (l *Lease, room *lease.Context) {
	if ctx.Done() != nil {
		both := new(struct {
			lease Lease
			room  lease.Context
		})
		l, room = &both.lease, &both.room
	} else {
		l = new(Lease)
	}
	l.k, l.name, l.label = k, name, label
	return l, room
}

// setTrace sets what others hear of the trace of a lease. Only its caller does,
// until it has it.
func (l *Lease) setTrace(trace string) {
	if trace == l.label.trace {
		return
	}
	traced := &label{l.label.limited, l.label.operation, trace}
	b := l.k.lock()
	l.label = traced
	b.Unlock()
}

// slot is where the lease stands in the books.
func (l *Lease) slot() *timing.Place { return &l.belief.Slot }

// Context is the operation's. It derives from the one given to Acquire, and
// ends with it, when the lease is lost (context.Cause is a *[LostError]), or
// when it is released.
func (l *Lease) Context() context.Context { return l.op.Context().Ctx }

// Name is that of the lock or limit.
func (l *Lease) Name() string { return l.name }

// key is the name as the desk has it.
func (l *Lease) key() contract.Name { return contract.Name{Text: l.name, Limit: l.label.limited} }

// Fence is the fencing token: positive, and greater than that of every earlier
// lease of this name. Let what the operation writes to refuse tokens below the
// highest it has seen.
func (l *Lease) Fence() int64 { return l.belief.Fence }

// Valid reports whether the lease still holds, by the clock: it is right on the
// first instruction after a pause.
func (l *Lease) Valid() bool { return l.Remaining() > 0 }

// Remaining is how long the lease may be relied on if no further heartbeat
// succeeds; 0 once it is over.
func (l *Lease) Remaining() time.Duration {
	until := l.belief.Until()
	if until == 0 {
		return 0
	}
	return max(0, until.Sub(l.k.clock.Now()))
}

// Err is a *[LostError] once the lease has been lost, also after Release; else
// nil.
func (l *Lease) Err() error {
	defer l.k.lock().Unlock()
	if lost := l.belief.Why(); lost != nil {
		return lost
	}
	return nil
}

// HoldAtLeast keeps the lock for d from now, though it is released before or
// the process ends: for work that must not be done again so soon. A longer time
// given before stands. It does nothing if d ≤ 0, or the lease is over.
func (l *Lease) HoldAtLeast(d time.Duration) {
	defer l.k.lock().Unlock()
	if d > 0 && !l.belief.Released() {
		l.belief.HoldAtLeast(l.k.clock.AtMost().Add(d))
	}
}

// keyOf is the lease's key as one of an owner has it.
func (l *Lease) keyOf(owner *lease.Owner) store.Hold {
	return store.Hold{Name: l.name, Limit: l.label.limited, Owner: owner.String()}
}

// ownKey is the lease's key, with its token until the store has certainly noted
// that.
func (l *Lease) ownKey() store.Hold {
	h := l.keyOf(&l.belief.Owner)
	if l.belief.Renewals() == 0 && !h.Limit {
		h.Fence = l.belief.Fence
	}
	return h
}

func (l *Lease) hold() store.Hold {
	h := l.ownKey()
	h.TTL = l.k.cfg.TTL
	return h
}

// beating is the hold of a heartbeat, which tells how many callers of this
// process wait behind the lease, if the store does not know that. Under the
// books' lock.
func (l *Lease) beating() store.Hold {
	h := l.hold()
	h.Callers = l.k.desk.InLine(l.key())
	h.Tells = !l.belief.IsTold(h.Callers)
	return h
}

// ending is the hold to release when the operation has ended. Under the books'
// lock.
func (l *Lease) ending(now instant) store.Hold {
	h := l.ownKey()
	if l.belief.Unsettled() != 0 {
		h.Place = l.belief.Place()
	}
	h.Keep = cleanup.KeepUntil(l.belief.Least(), now)
	return h
}

// orphan is the key of a lease for the cleaner. Under the books' lock, or
// after the lease's end.
func (l *Lease) orphan(hold store.Hold) *cleanup.Orphan {
	return &cleanup.Orphan{Hold: hold, TTL: l.belief.TTL(&l.k.rules), Least: l.belief.Least()}
}

// instant is a point of local time, counted since the keeper was made.
type instant = timing.Instant

// never is later than every instant that is reached.
const never = timing.Never
