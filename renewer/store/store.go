package store

import (
	"context"
	"time"
)

// Store is the authority on who holds a name. The engine, package renewer, asks it in batches and
// believes nothing else.
//
// A Store must be safe for concurrent use. Every method that takes a batch answers it in
// order, one answer an item (len(answers) == len(items)), and never panics on an empty
// batch. Items are independent: one that fails says so in its own answer. A Store keeps no
// time for the caller: it returns once it knows, or once ctx ends, and answers [StatusUnknown]
// with an error — ctx's, if that is why — for every item whose fate it cannot tell. Every
// ctx ends, though it may not tell when by its Deadline. A call must not outlive ctx by
// more than the store's own write timeout, nor touch items or answers once it has returned.
//
// Logs show the texts of a Store's errors, and names of locks may carry personal data. So an error
// that names one has a method Nameless() string, its text without the name: see renewer.ErrorText.
//
// A Store should not panic. What is said of panics at renewer.Observer is true of it too: Acquire,
// Release and Watch are called in callers' goroutines, Renew and some of Release in those of the
// engine.
//
// The conformance suite in testutil/storetest proves an implementation.
type Store interface {
	// Acquire tries each claim once. It is idempotent by owner token: a claim
	// repeated by the owner that has the name already answers [StatusHeld] with the
	// same fencing token, and renews the TTL. A claim for a name that another
	// owner has answers [StatusTaken] with what is known of the holder; it never waits.
	Acquire(ctx context.Context, claims []Claim) []Grant

	// Renew sets the TTL of every name that its owner still has. It never creates a name
	// and never shortens a TTL. When it finds a name [StatusGone], it wakes those who
	// watch it, since no release will. It does not wait behind a crowd of Acquires: few of
	// those that were there before it are answered first, however many there are.
	Renew(ctx context.Context, holds []Hold) []Answer

	// Release frees every name that its owner still has, or sets its TTL to [Hold.Keep]
	// if that is not 0, shorter or longer, and tells those who watch it. It answers
	// [StatusHeld] for these, and [StatusTaken] or [StatusGone] for a name that was not
	// the owner's any more, which it leaves as it is. Those who watch a name that is
	// StatusGone are woken, as by Renew; those who watch one that is StatusTaken are not.
	Release(ctx context.Context, holds []Hold) []Answer

	// Watch calls wake(nil) whenever name may have become free: soon after any owner's release, if
	// a claim was refused ([StatusTaken]) since that owner has the name; when an owner finds its
	// name [StatusGone]; and once after the watch is set up or set up again, since a release may
	// have slipped by before. Where places stand in line ([Claim.Place]) it need only wake the one
	// whose turn has come; if the line was lost, it wakes all. It calls wake(err) when it cannot
	// tell for now. Wake-ups may be spurious, and may be lost: callers keep a timer of their own.
	// wake must not block. Watch and stop return at once, and both may be called from wake;
	// after stop, a call of wake that was under way may still run, and no later one begins.
	Watch(name string, limit bool, wake func(error)) (stop func())

	// Settle is how long after it was sent an unanswered request may
	// still take effect, 0 if it can't. The engine frees what a lost
	// acquire may have left at once, and once more after this time.
	Settle() time.Duration
}

const (
	// MaxName is the longest name of a lock, in bytes.
	MaxName = 512
	// OwnerLen is the length of an owner token, in bytes.
	OwnerLen = 22
	// MaxReserved is how many tokens a grant reserves at most ([Grant.Reserved]). A store whose
	// tokens follow a clock in microseconds reserves none that is further ahead of it than this.
	MaxReserved = 10000
)

// Claim asks for a name.
type Claim struct {
	// Name is what to lock: 1 to [MaxName] bytes, checked by the
	// engine; a Store escapes what its keys can't carry.
	Name string
	// Owner is the owner token: [OwnerLen] bytes of the URL-safe
	// base64 alphabet, unique to this acquisition.
	Owner string
	// TTL is how long the name is held without a renewal: whole milliseconds, at least 1.
	TTL time.Duration
	// Place is the number of the place from which the owner asks, unique in this process; 0 if
	// uncontended. If the name is another's, a
	// Store that has a line of waiters puts the place at its end, unless it is there already: see
	// [StatusQueued]. A place is no owner token: it keeps its rank when the next claim from it has
	// another owner. A grant uses it up. Of a limit, claims that follow one another in a batch may
	// be from one place: if one is refused, it stands in line again, for the rest. A Store may
	// ignore it.
	Place uint64
	// Holder is shown to the callers who are refused meanwhile. A Store may cut
	// it short, and drop what can't be printed.
	Holder Holder
	// Newness is how new the call is, of one that gives way to newer ones; else its zero value. A
	// Store that knows refuses it with [StatusReplaced] if a newer call has had the name.
	Newness Newness
	// Limit is how many owners may have the name at once, at least 1, if it is that of a limit; 0
	// for a lock. A lock and a limit of one name are two things. It is the asker's own number, and
	// no Store keeps it: a claim is granted while fewer than it have the name, those whose turn has
	// come counted in. Each has a slot: a lease with an owner token, a TTL and a fencing token of
	// its own, above those of all slots granted before. What one owner does changes no other's.
	//
	// A slot that is released, or that has lapsed, is kept for the first place in line, if there is
	// one; there is one line for all slots. A claim that finds room for more wakes as many as fit.
	// No tokens are reserved. A Store that has no limits answers with an error that is [ErrConfig]
	// and [ErrRejected], and says why.
	Limit int
	// Callers is how many callers of this process will wait behind the owner, as far as is known:
	// see [Slot.Callers]. A Store may ignore it.
	Callers int
}

// Hold names a lease that exists, by its owner token.
type Hold struct {
	// Name is that of the lock, or with Limit of a limit.
	Name  string
	Limit bool
	Owner string
	// TTL is the duration to renew for: whole milliseconds, at least 1. Release ignores it.
	TTL time.Duration
	// Keep is how much longer the name stays held after a Release:
	// whole milliseconds; 0 frees it at once. Renew ignores it.
	Keep time.Duration
	// Place is, on a Release, the place that is given up ([Claim.Place]); 0 for none. If it has its
	// turn, the next one has. The owner need not have the name. Renew ignores it.
	Place uint64
	// Tells says, on a Renew, that Callers has changed and is to be shown: see [Slot.Callers]. A
	// Store may ignore both, and Release does.
	Tells   bool
	Callers int
}

// Status is what a Store knows of one item.
type Status uint8

const (
	// StatusUnknown is the zero value: the request may or may not have
	// taken effect; the answer's Err says why.
	StatusUnknown Status = iota
	// StatusHeld means that the owner of the request had the name when the store looked.
	StatusHeld
	// StatusTaken means that another owner has it.
	StatusTaken
	// StatusQueued means the same, and that the claim's place stands in the line of those who wait
	// for the name (Acquire only). When its turn comes, the Store wakes its watch and keeps the
	// name for it, for a moment in which to claim it. A place that is not wanted any more must be
	// given up: [Hold.Place]. One that is not in line need not be.
	//
	// A place stands in line while its process watches the name; otherwise the claim is
	// StatusTaken. A release, or a lease found gone, gives the turn to the first place, and passes
	// over those that no process hears. The claim from the place that has it is granted, by any
	// owner. Any other is StatusTaken meanwhile, its TTL being what is left of the turn. A turn
	// that ends without a claim leaves the name to the first to ask, and wakes the next places.
	StatusQueued
	// StatusGone means that no owner has it (Renew and Release only).
	StatusGone
	// StatusBehind means that no other owner has it, but that the token proposed is
	// too low. Nothing has changed.
	StatusBehind
	// StatusBroken means that the owner's lease was broken, so that it is not renewed (Renew only,
	// by an [Inspector]). The owner is to release it once its operation has returned.
	StatusBroken
	// StatusReplaced means that a newer call has had the name, so that this one is not to have it
	// any more (Acquire only, of claims with a [Claim.Newness]).
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
	// Fence is the fencing token, when StatusHeld: positive, and above that of every earlier grant
	// of the name by any owner. When StatusBehind it is the counter that a token must exceed.
	Fence int64
	// Reserved is how many tokens above Fence are the owner's as well, when StatusHeld, for those
	// to whom it hands the name without asking again: at most [MaxReserved], and 0 for a claim
	// without a place, or if the store reserves none. Every later grant of the name is above them
	// too. The owner uses one only once as many microseconds have passed since the grant, so that
	// those in use don't run ahead of a clock that tokens follow. A grant repeated may tell of
	// fewer than the first.
	Reserved int
	// Foreign reports, when StatusTaken or StatusQueued, that what is under the name is no owner's:
	// another program has written there.
	Foreign bool
	// Holder has the name, when StatusTaken or StatusQueued and not Foreign; its zero value if the
	// store can't tell.
	Holder Holder
	// HeldFor is how long Holder has had it, by the store's clock,
	// when StatusTaken or StatusQueued; 0 if the store can't tell.
	HeldFor time.Duration
	// TTL is how long the name stays held unless Holder renews, when
	// Taken; 0 if the store can't tell.
	TTL time.Duration
	// Held is how many have the name, when StatusTaken or StatusQueued of a limit. Holder is the
	// one of them whose TTL ends first.
	Held int
	// Broken reports, when StatusTaken or StatusQueued, that the owner of the claim has the name,
	// or a slot of it, and that this lease was broken before it knew, by an [Inspector]. It is to
	// release that, and may then claim as another owner: this claim may yet be carried out twice.
	Broken bool
	// Err says why, when StatusUnknown: [ErrNotSent] if nothing was asked.
	Err error
}

// Answer answers a [Hold].
type Answer struct {
	Status Status
	// Foreign reports, when StatusTaken, that what is under the name is no owner's: another program
	// has written over it.
	Foreign bool
	// Age is how long before the request was sent the name's TTL began to count, when StatusHeld; 0
	// for all but a store that puts answers of several together. The lease is valid for that much
	// less.
	Age time.Duration
	// Holder has the name, when StatusTaken and not Foreign; nil if the store can't tell.
	Holder *Holder
	// Broken is who broke the lease, when StatusBroken; nil if the store can't tell. Of one that
	// was broken by force it is told when StatusGone or StatusTaken.
	Broken *Broken
	// Err says why, when StatusUnknown.
	Err error
}
