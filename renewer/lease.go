package renewer

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"maps"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/internal/beat"
	"github.com/lockbeat/lockbeat/renewer/internal/cleanup"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// Lease is a lock held, renewed until Release or until it is lost. All methods may be called
// concurrently.
type Lease struct {
	k      *Keeper
	name   string
	label  *label
	fence  int64
	values context.Context // given to Acquire, or what the observer made of it; nil until granted
	op     atomic.Pointer[opContext]

	// until is the instant at which belief ends unless a heartbeat
	// moves it: what Valid looks at. 0 when the lease is over.
	until atomic.Int64

	// The rest is guarded by k.mu.
	acquired instant      // when it was; until then, when its caller began to ask
	deadline instant      // until when the store certainly holds the key for us
	due      instant      // the heartbeat planned next
	extras   *leaseExtras // nil for most
	renewals int32
	index    int32      // in Keeper.books, from 1 on; 0 if it is not on them
	beat     beat.Place // where its next heartbeat is planned
	state    state
	warned   uint8 // so often were observers told that it is still held, or neverWarned

	owner ownerToken // fits in here without a gap
}

// leaseExtras is what few leases have: those that met trouble, are contended, or were asked for
// with unusual options.
type leaseExtras struct {
	lastErr  error      // of the last heartbeat, nil once one is confirmed
	lost     *LostError // why the lease was lost
	lostAt   instant    // when
	overran  bool       // observers were told that the operation runs on
	freed    bool       // by Shutdown, which did not wait for the operation
	limitFor Reason     // why limit is set
	limit    instant    // where CancelGrace or a MaxHold of its own ends it; 0: Config.MaxHold does
	tokens   *tokens    // for hand-offs; nil if nobody waited when the store was asked
	// When an acquire was sent that was never answered, although a
	// later one was: it may still arrive after the release.
	unsettled instant
	place     uint64        // from which that asked
	looked    instant       // the last look upon a message: see Keeper.look
	least     instant       // until when the store is to hold the key in any case: see HoldAtLeast
	manual    time.Duration // the longest TTL asked for, without a heartbeat: see Manual, Extend
	told      int           // how many callers wait, as the store was told; -1: not known
	onLoss    map[*func()]struct{}
}

// unusual reports whether the lease can't be handed over as it is: there is trouble with a
// heartbeat, HoldAtLeast, Manual. Under k.mu.
func (t *leaseExtras) unusual() bool {
	return t != nil && (t.lastErr != nil || t.lost != nil || t.unsettled != 0 || t.least != 0 ||
		t.manual != 0)
}

// neverWarned is for a lease that is held for as long as it may be: see LongRunning.
const neverWarned = 1<<8 - 1

type state uint8

const (
	stateAsking   state = iota // its caller waits, or asks the store
	stateHeld                  // ours
	stateLost                  // not ours any more, but its operation has not returned
	stateReleased              // over
)

// label is what others hear of a lease besides its name. It never changes.
type label struct {
	limited   bool // it is a slot of a limit
	operation string
	trace     string // what the observer made of the claim
}

// labels are those of the operations that calls have named, so that no lease costs one of its own.
// Operations are few, and one beyond the most that are kept has a label for each call.
type labels struct {
	known atomic.Pointer[map[label]*label]
}

// mostLabels is a bound on what a caller with an operation of its own for each call can cost.
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

// setTrace sets what others hear of the trace of a lease. Only its caller does, until it has it.
func (l *Lease) setTrace(trace string) {
	if trace == l.label.trace {
		return
	}
	traced := &label{l.label.limited, l.label.operation, trace}
	l.k.mu.Lock()
	l.label = traced
	l.k.mu.Unlock()
}

// lost is why the lease was lost, nil if it was not. Under k.mu, or after the lease's end.
func (l *Lease) lost() *LostError {
	if l.extras == nil {
		return nil
	}
	return l.extras.lost
}

// unsettled is when an acquire was sent that was never answered and may still arrive, 0 if there is
// none. After the lease's end.
func (l *Lease) unsettled() instant {
	if l.extras == nil {
		return 0
	}
	return l.extras.unsettled
}

// tokens are those for hand-offs; nil if nobody waited when the store was asked. Under k.mu.
func (l *Lease) tokens() *tokens {
	if l.extras == nil {
		return nil
	}
	return l.extras.tokens
}

// withExtras is the lease's extras, made when it needs them. Under k.mu, or before the lease is
// granted.
func (l *Lease) withExtras() *leaseExtras {
	if l.extras == nil {
		l.extras = new(leaseExtras)
	}
	return l.extras
}

// ttl is how long the store holds the key after a request, at the most.
func (l *Lease) ttl() time.Duration {
	if l.manual() {
		return l.extras.manual
	}
	return l.k.cfg.TTL
}

// manual reports whether the lease has no heartbeat.
func (l *Lease) manual() bool { return l.extras != nil && l.extras.manual != 0 }

// Name is that of the lock or limit.
func (l *Lease) Name() string { return l.name }

// Limited reports whether the lease is a slot of a limit.
func (l *Lease) Limited() bool { return l.label.limited }

// key is the name as the desk has it.
func (l *Lease) key() contract.Name { return contract.Name{Text: l.name, Limit: l.label.limited} }

// Fence is the fencing token: positive, and greater than that of every earlier lease of this
// name. Let what the operation writes to refuse tokens below the highest it has seen.
func (l *Lease) Fence() int64 { return l.fence }

// Valid reports whether the lease still holds, by the clock: it is right on the first
// instruction after a pause.
func (l *Lease) Valid() bool { return l.Remaining() > 0 }

// Remaining is how long the lease may be relied on if no further heartbeat succeeds; 0 once it
// is over.
func (l *Lease) Remaining() time.Duration {
	until := instant(l.until.Load())
	if until == 0 {
		return 0
	}
	return max(0, until.Sub(l.k.clock.Now()))
}

// Err is a *[LostError] once the lease has been lost, also after Release; else nil.
func (l *Lease) Err() error {
	l.k.mu.Lock()
	defer l.k.mu.Unlock()
	if lost := l.lost(); lost != nil {
		return lost
	}
	return nil
}

// HoldAtLeast keeps the lock for d from now, though it is released before or the process ends:
// for work that must not be done again so soon. A longer time given before stands. It does
// nothing if d ≤ 0, or the lease is over.
func (l *Lease) HoldAtLeast(d time.Duration) {
	l.k.mu.Lock()
	defer l.k.mu.Unlock()
	if d > 0 && l.state != stateReleased {
		extra := l.withExtras()
		extra.least = max(extra.least, l.k.clock.AtMost().Add(d))
	}
}

func (l *Lease) hold() store.Hold {
	return store.Hold{Name: l.name, Limit: l.Limited(), Owner: l.owner.String(), TTL: l.k.cfg.TTL}
}

// beating is the hold of a heartbeat, which tells how many callers of this process wait behind the
// lease, if the store does not know that. Under k.mu.
func (l *Lease) beating() store.Hold {
	h := l.hold()
	h.Callers = l.k.desk.InLine(l.key())
	told := 0
	if l.extras != nil {
		told = l.extras.told
	}
	h.Tells = h.Callers != told
	return h
}

// ending is the hold to release when the operation has ended. Under k.mu.
func (l *Lease) ending(now instant) store.Hold {
	h := store.Hold{Name: l.name, Limit: l.Limited(), Owner: l.owner.String()}
	if l.extras != nil {
		h.Keep = cleanup.KeepUntil(l.extras.least, now)
		h.Place = l.extras.place
	}
	return h
}

// orphan is the key of a lease for the cleaner. Under k.mu, or after the lease's end.
func (l *Lease) orphan(hold store.Hold) *cleanup.Orphan {
	o := &cleanup.Orphan{Hold: hold, TTL: l.ttl()}
	if l.extras != nil {
		o.Least = l.extras.least
	}
	return o
}

// ownerToken is the owner token of a lease, inside the lease: with a string each of very many
// leases would take 16 bytes more, and a heartbeat would read one more place in memory. It is
// written once, before it is read.
type ownerToken [store.OwnerLen]byte

// newOwner makes one of 128 random bits, so that no two acquisitions share one, not even those of
// a process that was cloned from a snapshot, for which a counter would repeat.
func newOwner() (token ownerToken) {
	var raw [16]byte
	rand.Read(raw[:]) // never fails: see crypto/rand
	base64.RawURLEncoding.Encode(token[:], raw[:])
	return token
}

// String is the token without a copy; "" if there is none yet.
func (o *ownerToken) String() string {
	if o[0] == 0 {
		return ""
	}
	return unsafe.String(&o[0], len(o)) //nolint:gosec // it is not written any more
}
