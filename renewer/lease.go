package renewer

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/renewer/internal/timing"
)

// Lease is a lock held. The engine renews it until Release, or until
// it is lost. All methods may be called concurrently.
type Lease struct {
	k      *Keeper
	name   string
	owner  string
	label  *label
	fence  int64
	values context.Context // given to Acquire, or what the observer made of it; nil until granted
	op     atomic.Pointer[opContext]

	// until is the instant at which belief ends unless a heartbeat
	// moves it: what Valid looks at. 0 when the lease is over.
	until atomic.Int64

	// The rest is guarded by k.mu.
	acquired instant
	deadline instant // until when the store certainly holds the key for us
	limit    instant // where MaxHold or CancelGrace ends it; never if neither does
	due      instant // the heartbeat planned next
	rare     *rare   // nil for most
	line     *line   // who waits for it in this process; nil if nobody does
	renewals int32
	index    int32 // in Keeper.books, from 1 on; 0 if it is not on them
	// in Keeper.deadlines, and in the wheel of its shardQueue
	deadlinePlace, heartbeatPlace timing.Place
	queue                         queueNumber // where its next heartbeat is planned
	state                         state
	limitFor                      Reason
}

// rare is what only few leases have: those with which something went
// wrong, or of which something unusual is asked.
type rare struct {
	lastErr error      // of the last heartbeat, nil once one is confirmed
	lost    *LostError // why the lease was lost
	lostAt  instant    // when
	freed   bool       // by Shutdown, which did not wait for the operation
	// When an acquire was sent that was never answered, although a
	// later one was: it may still arrive after the release.
	unsettled instant
	least     instant       // until when the store is to hold the key in any case: see HoldAtLeast
	reserved  bool          // tokens were asked for that nobody has used when the lease was lost
	manual    time.Duration // the TTL of a lease without a heartbeat: see Manual
	onLoss    map[*func()]struct{}
}

// unusual reports whether the lease can't be handed over as it is: there is trouble with a
// heartbeat, HoldAtLeast, Manual. Under k.mu.
func (t *rare) unusual() bool {
	return t != nil && (t.lastErr != nil || t.lost != nil || t.unsettled != 0 || t.least != 0 ||
		t.manual != 0)
}

// label is what others hear of a lease besides its name. It never changes.
type label struct {
	operation string
	trace     string // what the observer made of the claim
}

var noLabel = new(label)

// traced is a label with a trace.
func (b *label) traced(trace string) *label {
	if trace == b.trace {
		return b
	}
	return &label{b.operation, trace}
}

// lost is why the lease was lost, nil if it was not. Under k.mu, or after the lease's end.
func (l *Lease) lost() *LostError {
	if l.rare == nil {
		return nil
	}
	return l.rare.lost
}

// unsettled is when an acquire was sent that was never answered and may still arrive, 0 if there is
// none. After the lease's end.
func (l *Lease) unsettled() instant {
	if l.rare == nil {
		return 0
	}
	return l.rare.unsettled
}

// withRare is the lease's rare, made when it needs one. Under k.mu, or before the lease is granted.
func (l *Lease) withRare() *rare {
	if l.rare == nil {
		l.rare = new(rare)
	}
	return l.rare
}

// ttl is how long the store holds the key after an acquire.
func (l *Lease) ttl() time.Duration {
	if l.manual() {
		return l.rare.manual
	}
	return l.k.cfg.TTL
}

func deadlinePlace(l *Lease) *timing.Place  { return &l.deadlinePlace }
func heartbeatPlace(l *Lease) *timing.Place { return &l.heartbeatPlace }

// manual tells whether the lease has no heartbeat.
func (l *Lease) manual() bool { return l.rare != nil && l.rare.manual != 0 }

type state uint8

const (
	asking   state = iota // at the head of its line, asking the store
	held                  // ours
	lost                  // not ours any more, but its operation has not returned
	released              // over
)

// Name is the lock's name as given to Acquire.
func (l *Lease) Name() string { return l.name }

// Fence is the fencing token: positive, and greater than that of every earlier lease of this name.
// A resource that refuses tokens below the highest it has seen is safe even from a process that was
// paused and does not know yet. A store that loses its data while the lease is held (FLUSHALL)
// grants the name anew, with higher tokens; for up to [Config.HandOffFor] this process may still
// hand the lease on with lower ones, which such a resource refuses.
func (l *Lease) Fence() int64 { return l.fence }

// Valid tells whether the lease still holds, by the clock: it is right
// on the first instruction after a pause of the process, when the
// context has not been cancelled yet. It costs about a microsecond.
func (l *Lease) Valid() bool { return l.Remaining() > 0 }

// Remaining is how long the lease may be relied on if no further
// heartbeat succeeds; 0 once it is over.
func (l *Lease) Remaining() time.Duration {
	until := instant(l.until.Load())
	if until == 0 {
		return 0
	}
	return max(0, until.Sub(l.k.clock.Now()))
}

// Err is a *[LostError] once the lease has been lost, also after Release; nil otherwise.
func (l *Lease) Err() error {
	l.k.mu.Lock()
	defer l.k.mu.Unlock()
	if lost := l.lost(); lost != nil {
		return lost
	}
	return nil
}

// Release ends the operation and frees the key, if it is still ours. It uses ctx for its values
// only: a cancelled caller still frees the lock. It takes at most [Config.RequestTimeout]; a key
// that could not be freed by then is freed in the background as soon as the store answers, and
// lapses with its TTL at the latest. That is true after [Keeper.Shutdown] too, except that nothing
// happens in the background any more: one request has to do.
//
// If others wait for the name in this process, the lock goes to the first
// of them without asking the store, within the bounds of [Config.HandOffs].
//
// The error is a *[LostError] if the lease had been lost, or is found
// to have been, and [ErrUnavailable] if nobody knows whether the key
// was freed. A second call does nothing and returns nil.
func (l *Lease) Release(ctx context.Context) error { return l.k.release(ctx, l, true) }

// Abort is Release after a panic, or another failure that may have left this process in disorder:
// the lock is freed at the store in any case, rather than handed to the next in this process.
func (l *Lease) Abort(ctx context.Context) error { return l.k.release(ctx, l, false) }

// HoldAtLeast keeps the lock for d from now, even if it is released before, as the option of that
// name does from the acquire: for callers who learn only after the acquire that they will use the
// lock. A longer time asked for before stands. Zero or less, and a lease that is over, change
// nothing.
func (l *Lease) HoldAtLeast(d time.Duration) {
	l.k.mu.Lock()
	defer l.k.mu.Unlock()
	if d > 0 && l.state != released {
		extra := l.withRare()
		extra.least = max(extra.least, l.k.clock.AtMost().Add(d))
	}
}

func (l *Lease) hold() Hold { return Hold{Name: l.name, Owner: l.owner, TTL: l.k.cfg.TTL} }

// ending is the hold to release when the operation has ended. Under k.mu.
func (l *Lease) ending(now instant) Hold {
	h := Hold{Name: l.name, Owner: l.owner}
	if l.rare != nil {
		h.Keep = keepUntil(l.rare.least, now)
	}
	if l.reserved() {
		h.Used = max(l.fence, 1)
	}
	return h
}

// orphan is the key of a lease for the cleaner. Under k.mu, or after the lease's end.
func (l *Lease) orphan(hold Hold) *orphan {
	o := &orphan{hold: hold, ttl: l.ttl()}
	if l.rare != nil {
		o.least = l.rare.least
	}
	return o
}

// reserved reports whether the store may have reserved tokens for hand-offs, which are to be given
// back. Under k.mu.
func (l *Lease) reserved() bool {
	return l.rare != nil && l.rare.reserved || l.line != nil && l.line.tokens.last != 0
}

// keepMost is the longest that a key is held for. A store adds it to its clock, and must not
// overflow.
const keepMost = 10 * 365 * 24 * time.Hour

// keepUntil is how much longer a key is to be held until least, in whole milliseconds, rounded up.
func keepUntil(least, now instant) time.Duration {
	return (min(max(0, least.Sub(now)), keepMost) + time.Millisecond - 1).Truncate(time.Millisecond)
}
