// Package store is the contract between the engine, package renewer, and what
// keeps its locks.
package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Store is the authority on who holds a name.
//
// It must be safe for concurrent use. A batch is answered in order, one answer
// an item; one item that fails does not fail others. A Store returns once it
// knows, or once ctx ends, and answers [StatusUnknown] with an error for every
// item whose fate it can't tell. Every ctx ends, though it may have no
// Deadline. A call must not outlive ctx by more than the store's own write
// timeout, nor touch items or answers once it has returned.
//
// An error whose text names a lock has a method Nameless() string, its text for
// logs: see renewer.ErrorText. A panic may end the process.
//
// The suite in testutil/storetest proves an implementation; see
// docs/write-a-store.md.
type Store interface {
	// Acquire tries each claim once, and never waits. A claim repeated by the
	// owner that has the name answers [StatusHeld] with the same fencing token,
	// and renews the TTL; a Store that notes tokens later ([Hold].Fence) may
	// give a higher one until then. If another owner has it, it answers
	// [StatusTaken].
	Acquire(ctx context.Context, claims []Claim) []Grant

	// Renew sets the TTL of every name that its owner still has. It never
	// creates a name and never shortens a TTL. When it finds a name
	// [StatusGone], it wakes those who watch it. It must not wait behind a
	// crowd of Acquires.
	Renew(ctx context.Context, holds []Hold) []Answer

	// Release frees every name that its owner still has, or sets its TTL to
	// [Hold.Keep] if that is not 0, shorter or longer, wakes those who watch
	// it, and answers [StatusHeld]. A name that was not the owner's any more it
	// leaves as it is: [StatusTaken], or [StatusGone], which wakes those who
	// watch it.
	Release(ctx context.Context, holds []Hold) []Answer

	// Watch calls wake(nil) whenever name may have become free: soon after a
	// release, if a claim was refused since that owner has the name; when an
	// owner finds it [StatusGone]; and once after the watch is set up or set up
	// again. Where places stand in line ([Claim.Place]) it need only wake the
	// one whose turn has come; if the line was lost, it wakes all. It calls
	// wake(err) when it can't tell for now. Wake-ups may be spurious, and may
	// be lost. wake must not block. Watch and stop return at once, and may be
	// called from wake; after stop, a call under way may still run, and no
	// later one begins.
	Watch(name string, limit bool, wake func(error)) (stop func())

	// Settle is how long after it was sent an unanswered request may still take
	// effect, 0 if it can't. The engine frees what a lost acquire may have left
	// at once, and again after this time.
	Settle() time.Duration
}

const (
	// MaxName is the longest name of a lock, in bytes.
	MaxName = 512
	// OwnerLen is the length of an owner token, in bytes.
	OwnerLen = 22
	// MaxReserved is how many tokens a grant reserves at most, and how many
	// microseconds ahead of its clock a store whose tokens follow one.
	MaxReserved = 10000
)

// Claim asks for a name: a lock, which one owner may have, or a slot of a
// limit.
//
// A lock and a limit of one name are two things. A slot is a lease of its own,
// with an owner token, a TTL and a fencing token above those of all slots
// granted before; what one owner does changes no other's. A slot that is
// released, or that has lapsed, is kept for the first place in line; there is
// one line for all slots. A claim that finds room for more wakes as many as
// fit. No tokens are reserved for slots. A Store without limits answers with an
// error that is [ErrConfig] and [ErrRejected].
type Claim struct {
	// Name is 1 to [MaxName] bytes, checked by the engine; a Store escapes what
	// its keys can't carry.
	Name string
	// Owner is the owner token: [OwnerLen] bytes of the URL-safe base64
	// alphabet, unique to this acquisition.
	Owner string
	// TTL is how long the name is held without a renewal: whole milliseconds,
	// at least 1.
	TTL time.Duration
	// Place is the number of the place from which the owner asks, unique in
	// this process; 0 for none. If the name is another's, a Store that has a
	// line puts the place at its end, unless it is there already:
	// [StatusQueued]. A grant uses it up. Of a lock, all claims from a place
	// are of one owner. Of a limit, the place keeps its rank when the next
	// claim from it has another one, and claims that follow one another in a
	// batch may be from one place: if one is refused, it stands in line again.
	// A Store may ignore it.
	Place uint64
	// Holder is shown to callers who are refused. A Store may cut it short, and
	// drop what can't be printed.
	Holder Holder
	// Newness is how new the call is, if it gives way to newer ones; else its
	// zero value. A Store that knows refuses it with [StatusReplaced] if a
	// newer call has had the name.
	Newness Newness
	// Limit is how many owners may have the limit at once, at least 1; 0 for a
	// lock. It is the asker's own number, kept nowhere: the claim is granted
	// while fewer have a slot, those whose turn has come counted in.
	Limit int
	// Callers is how many callers of this process will wait behind the owner,
	// for [Slot]. A Store may ignore it.
	Callers int
	// Manual means that no heartbeat follows: a Store that notes tokens by the
	// first ([Hold].Fence) notes this one at once.
	Manual bool
}

// Hold names a lease that exists, by its owner token.
type Hold struct {
	// Name is that of the lock, or with Limit of a limit.
	Name  string
	Limit bool
	Owner string
	// TTL is the duration to renew for: whole milliseconds, at least 1. Release
	// ignores it.
	TTL time.Duration
	// Keep is how much longer the name stays held after a Release: whole
	// milliseconds; 0 frees it at once. Renew ignores it.
	Keep time.Duration
	// Fence is the fencing token of a lock's lease that was not renewed yet,
	// else 0, for a Store that notes it only then. It may be ignored.
	Fence int64
	// Place is the place that a Release gives up, or 0. If a limit's has its
	// turn, the next one has. The owner, of a lock that of its claims, need not
	// have the name.
	Place uint64
	// Tells says, on a Renew, that Callers has changed: see [Claim]. A Store
	// may ignore both.
	Tells   bool
	Callers int
}

// Status is what a Store knows of one item.
type Status uint8

const (
	// StatusUnknown means that the request may or may not have taken effect;
	// Err says why.
	StatusUnknown Status = iota
	// StatusHeld means that the owner of the request had the name when the
	// store looked.
	StatusHeld
	// StatusTaken means that another owner has it.
	StatusTaken
	// StatusQueued means the same, and that the claim's place stands in line
	// (Acquire only), while its process watches the name; otherwise the claim
	// is StatusTaken. A release, or a lease found gone, serves the first place,
	// passing over those that no process hears, and wakes its watch.
	//
	// Of a lock, the first claim from that place is granted, with its owner,
	// TTL and holder. The next claim from it is answered [Grant.Late], once, if
	// the Store has heard of that grant; else as any that is repeated by the
	// owner. A lease that lapses so wakes the next places. For a claim with a
	// Newness, or a Manual one, a Store may keep the name for a moment, as of a
	// limit.
	//
	// Of a limit, a slot is kept for the place for a moment: its turn. The
	// claim from it is granted, by any owner. A turn that ends without a claim
	// leaves the slot to the first to ask, and wakes the next places.
	StatusQueued
	// StatusGone means that no owner has it (Renew and Release only).
	StatusGone
	// StatusBehind means that no other owner has it, but that the token
	// proposed, or the write's number, is too low. Nothing has changed.
	StatusBehind
	// StatusBroken means that the lease was broken, so that it is not renewed
	// (Renew only). The owner is to release it once its operation has returned.
	StatusBroken
	// StatusReplaced means that a newer call has had the name (Acquire only, of
	// claims with a Newness).
	StatusReplaced
)

// String returns the status in lower case.
func (s Status) String() string {
	switch s {
	case StatusHeld:
		return "held"
	case StatusTaken:
		return "taken"
	case StatusQueued:
		return "queued"
	case StatusGone:
		return "gone"
	case StatusBehind:
		return "behind"
	case StatusBroken:
		return "broken"
	case StatusReplaced:
		return "replaced"
	default:
		return "unknown"
	}
}

// Grant answers a [Claim].
type Grant struct {
	Status Status
	// Fence is the fencing token, when StatusHeld: positive, and above that of
	// every earlier grant of the name. When StatusBehind it is the counter that
	// a token must exceed.
	Fence int64
	// Reserved is how many tokens above Fence are the owner's as well, when
	// StatusHeld, for hand-offs: at most [MaxReserved], and 0 for a claim
	// without a place. Every later grant of the name is above them too. The
	// owner uses one only once as many microseconds have passed since the
	// grant. A grant repeated may tell of fewer.
	Reserved int
	// Late means, when StatusHeld, that this answers the first claim from the
	// place: see [StatusQueued]. The TTL began after that was sent, and perhaps
	// long ago.
	Late bool
	// The rest is for StatusTaken and StatusQueued, but Err. Zero values mean
	// that the store can't tell.

	// Foreign means that another program has written under the name.
	Foreign bool
	// Holder has the name; of a limit, the slot that lapses first.
	Holder Holder
	// HeldFor is how long Holder has had it, by the store's clock.
	HeldFor time.Duration
	// TTL is how long the name stays held unless Holder renews.
	TTL time.Duration
	// Held is how many have the limit.
	Held int
	// Broken means that the owner of the claim has the name, and that this
	// lease was broken before it knew. It is to release that, and may then
	// claim as another owner.
	Broken bool
	// Err says why, when StatusUnknown: [ErrNotSent] if nothing was asked.
	Err error
}

// Answer answers a [Hold].
type Answer struct {
	Status Status
	// Foreign means, when StatusTaken, that another program has written over
	// the name.
	Foreign bool
	// Age is how long before the request was sent the name's TTL began to
	// count, when StatusHeld; 0 for all but a store that puts answers of
	// several together.
	Age time.Duration
	// Holder has the name, when StatusTaken; nil if the store can't tell.
	Holder *Holder
	// Broken is who broke the lease, when StatusBroken, or by force, when
	// StatusGone or StatusTaken; nil if the store can't tell.
	Broken *Broken
	// Err says why, when StatusUnknown.
	Err error
}

// Holder is who has a name, for people.
type Holder struct {
	Node      string // renewer.Config.Node, by default the host name
	PID       int
	Operation string // that of the renewer.Request, or ""
	// Trace is its W3C traceparent, or "". Like all of a Holder it comes from
	// another process: check it before use.
	Trace string
}

// String returns "web-1 pid 4711 (email:send)", without what is unknown, and
// without Trace.
func (h Holder) String() string {
	s := h.Node
	if h.PID != 0 {
		if s != "" {
			s += " "
		}
		s += "pid " + strconv.Itoa(h.PID)
	}
	if h.Operation != "" {
		if s != "" {
			s += " "
		}
		s += "(" + h.Operation + ")"
	}
	if s == "" {
		return "unknown holder"
	}
	return s
}

// Newness is how new a call is. Of two calls with ranks the greater is newer;
// of others, the one that was made later.
type Newness struct {
	// Rank is the caller's: a version, an ID. 0: none.
	Rank int64
	// Since is when the call was made, by the store's clock, in microseconds,
	// if the store has noted it before; else 0, and Age is how long ago by the
	// caller's clock: at least 1 ns.
	Since int64
	Age   time.Duration
}

// What a Store's errors are, as errors.Is tells. Package renewer has them under
// the same names.
var (
	// ErrUnavailable means that the store could not be asked: it is not known
	// who has the lock.
	ErrUnavailable = errors.New("lockbeat: lock store unavailable")
	// ErrRejected marks an answer that the same request gets again until the
	// server is changed: missing rights, a key of another type, a client that
	// was closed. The engine does not retry an acquire on it.
	ErrRejected = errors.New("lockbeat: refused by the lock store")
	// ErrOverloaded marks the answer of a server that is up and refuses for
	// now: it is out of memory, or busy. It is no evidence of an outage.
	ErrOverloaded = errors.New("lockbeat: the lock store is overloaded")
	// ErrNotSent means that an acquire has not left the process: there is
	// nothing to free. A Store need not know.
	ErrNotSent = errors.New("not sent")
	// ErrNoRecord means that a record was not written, since its term has
	// lapsed. Recorders of single records answer so, where a [Recorder] answers
	// [StatusGone].
	ErrNoRecord = errors.New("lockbeat: the record has lapsed")
	// ErrConfig means that a configuration, an option or a duration is
	// unusable; the text names each.
	ErrConfig = errors.New("lockbeat: invalid configuration")
)

// Millis converts a duration to whole milliseconds, rounding down, and refuses
// less than one with [ErrConfig].
func Millis(d time.Duration) (int64, error) {
	if d < time.Millisecond { // 0 would mean "none" to some servers, and "gone at once" to others
		return 0, fmt.Errorf("%w: a duration of %v is below the shortest, 1ms", ErrConfig, d)
	}
	return d.Milliseconds(), nil
}
