// Package lease is what is believed of one lease of this process: whose it is,
// until when, why it ended, and the context of its operation. It knows no
// keeper, no store and no other lease but the one that it is passed on to.
// Answers and instants go in; facts come out, of which the engine makes errors
// and events.
//
//	asking ──Grant──▶ held ──End──▶ released
//	   │               │ └──Transfer──▶ released; the next one is held
//	   │               └──Lose──▶ lost ──End──▶ released
//	   └──End──▶ released
//
// What it holds true: Until is at most Margin before the end of the TTL at the
// store, by its slowest clock, counted from when a request was sent, never from
// its answer. It moves on only while the lease is held and by what the store
// has confirmed, and is 0 from the instant at which the lease is not held any
// more.
package lease

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/lockbeat/lockbeat/renewer/internal/asking"
	"github.com/lockbeat/lockbeat/renewer/internal/timing"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// Belief is what is believed of one lease. The caller guards it with a lock of
// its own, other than Until. Why the lease was lost is told as an E.
type Belief[E any] struct {
	// until is the instant at which belief ends unless a heartbeat moves it.
	until atomic.Int64

	acquired timing.Instant // when it was; until then, when its caller began to ask
	deadline timing.Instant // until when the store certainly holds the key for us, or is to answer
	Due      timing.Instant // the heartbeat planned next, by the engine
	Fence    int64
	extras   *extras[E] // nil for most
	renewals int32
	Slot     timing.Place // in the engine's wheel of what is due
	state    state
	warned   uint8 // so often were observers told that it is still held, or neverWarned
	Owner    Owner // fits in here without a gap
}

type state uint8

const (
	stateAsking   state = iota // its caller waits, or asks the store
	stateHeld                  // ours
	stateLost                  // not ours any more, but its operation has not returned
	stateReleased              // over
)

// Rules are those of one keeper's leases.
type Rules struct {
	TTL, Margin time.Duration
	Drift       float64
	MaxHold     time.Duration // 0: none
	HoldWarning time.Duration // less than 0: no one is to be warned
}

// Reason is why a lease was lost.
type Reason uint8

// The reasons of which this package knows more than that they are given.
const (
	Expired Reason = iota + 1 // no renewal was confirmed in time
	Taken                     // the key is gone, or another owner has it
	MaxHold                   // held for as long as it may be
)

// neverWarned is for a lease that is held for as long as it may be.
const neverWarned = 1<<8 - 1

// Ask begins a lease for a caller that has begun to ask. One that is
// long-running is never warned of.
func (b *Belief[E]) Ask(since timing.Instant, longRunning bool) {
	b.acquired = since
	if longRunning {
		b.warned = neverWarned
	}
}

// AskUntil is by when the store is to answer that is being asked.
func (b *Belief[E]) AskUntil(at timing.Instant) { b.deadline = at }

// AskAgain begins a lease in place of one that asks: under another owner token,
// as a question may still have that one's.
func (b *Belief[E]) AskAgain(before *Belief[E], owner Owner) {
	b.Owner, b.extras, b.acquired, b.warned = owner, before.extras, before.acquired, before.warned
}

// Asking reports whether the caller of the lease waits, or asks the store.
func (b *Belief[E]) Asking() bool { return b.state == stateAsking }

// Held reports whether the lease is ours.
func (b *Belief[E]) Held() bool { return b.state == stateHeld }

// Lost reports whether the lease is not ours any more, and its operation has
// not returned.
func (b *Belief[E]) Lost() bool { return b.state == stateLost }

// Released reports whether the lease is over.
func (b *Belief[E]) Released() bool { return b.state == stateReleased }

// Until is the instant at which belief ends unless a heartbeat moves it; 0 when
// the lease is over. It needs no lock.
func (b *Belief[E]) Until() timing.Instant { return timing.Instant(b.until.Load()) }

// Since is when the lease was acquired; until then, when its caller began to
// ask.
func (b *Belief[E]) Since() timing.Instant { return b.acquired }

// Left is for how long the store certainly holds the key yet.
func (b *Belief[E]) Left(now timing.Instant) time.Duration { return b.deadline.Sub(now) }

// Renewals counts the heartbeats that were confirmed.
func (b *Belief[E]) Renewals() int { return int(b.renewals) }

// LongRunning reports whether the lease is held for as long as it may be.
func (b *Belief[E]) LongRunning() bool { return b.warned == neverWarned }

// Grant begins a lease that the store has granted. sent is when the request
// was, from which its time counts. maxHold is that of the call: 0 if it has
// none of its own, negative for no bound.
func (b *Belief[E]) Grant(r *Rules, sent, now timing.Instant, maxHold time.Duration) {
	b.state, b.acquired = stateHeld, now
	b.deadline = r.Deadline(sent, b.TTL(r))
	b.boundTo(r, maxHold)
	b.setUntil(r)
}

// boundTo sets the MaxHold of a lease whose call has its own.
func (b *Belief[E]) boundTo(r *Rules, maxHold time.Duration) {
	switch {
	case maxHold > 0:
		x := b.withExtras()
		x.limit, x.limitFor = b.acquired.Add(maxHold), MaxHold
	case maxHold < 0 && r.MaxHold > 0:
		b.withExtras().limit = timing.Never
	}
}

// Renewed books that the store has confirmed a lease for ttl, answering a
// request that was sent at an instant. It reports whether that moves its time
// on: answers may overtake each other.
func (b *Belief[E]) Renewed(r *Rules, sent timing.Instant, ttl time.Duration) (further bool) {
	if b.extras != nil {
		b.extras.lastErr = nil
	}
	b.renewals++
	if deadline := r.Deadline(sent, ttl); deadline > b.deadline {
		b.deadline, further = deadline, true
	}
	b.setUntil(r)
	return further
}

// Missed books a renewal whose outcome is not known: the time of the lease
// stays as it was.
func (b *Belief[E]) Missed(err error) { b.withExtras().lastErr = err }

// Transfer passes a lease on to next: the owner, the store's time and the
// tokens go on; the limits and the fencing token are new. maxHold is that of
// next, as in Grant.
func (b *Belief[E]) Transfer(
	r *Rules, next *Belief[E], maxHold time.Duration, fence int64, now timing.Instant,
) {
	next.Owner, next.Fence = b.Owner, fence
	next.state, next.acquired, next.deadline, next.Due = stateHeld, now, b.deadline, b.Due
	// The extras go on with nothing in them but the tokens, the place and what
	// the store was told: so a hand-off allocates none. next has none of its
	// own: it has asked for nothing unusual.
	if x := b.extras; x != nil {
		if x.tokens != nil {
			x.tokens.left--
		}
		*x = extras[E]{tokens: x.tokens, told: x.told, place: x.place}
		next.extras, b.extras = x, nil
	}
	next.boundTo(r, maxHold)
	next.setUntil(r)
	b.End()
}

// LimitTo ends belief at an instant, if nothing ends it before.
func (b *Belief[E]) LimitTo(r *Rules, at timing.Instant, reason Reason) {
	if limit, _ := b.limit(r); at < limit {
		x := b.withExtras()
		x.limit, x.limitFor = at, reason
	}
	b.setUntil(r)
}

// Loss is why a lease was lost.
type Loss struct {
	Reason  Reason
	Left    time.Duration // for so long no other owner could have the lock yet
	Err     error         // of the last renewal, if that is why
	MaxHold time.Duration // of the call, if that ended it
}

// Expire loses a held lease whose belief has ended by the clock.
func (b *Belief[E]) Expire(r *Rules, now timing.Instant) Loss {
	reason := Expired
	if limit, why := b.limit(r); limit <= now {
		reason = why
	}
	return b.Lose(reason, now)
}

// Lose ends a held lease before its operation does. Tell it why next.
func (b *Belief[E]) Lose(reason Reason, now timing.Instant) Loss {
	b.state = stateLost
	b.until.Store(0)
	x, loss := b.withExtras(), Loss{Reason: reason}
	x.lostAt = now
	if reason != Taken {
		loss.Left = max(0, b.deadline.Sub(now))
	}
	x.notice = loss.Left
	switch {
	case reason == Expired:
		loss.Err = x.lastErr
	case reason == MaxHold && x.limit != 0:
		loss.MaxHold = x.limit.Sub(b.acquired)
	}
	return loss
}

// Tell notes what the operation is told of a loss, also of one that was only
// found at the release.
func (b *Belief[E]) Tell(why *E) { b.withExtras().why = why }

// End ends a lease as released.
func (b *Belief[E]) End() {
	b.state = stateReleased
	b.until.Store(0)
}

// limit is where MaxHold or LimitTo ends a lease, and which; never if neither
// does.
func (b *Belief[E]) limit(r *Rules) (at timing.Instant, reason Reason) {
	if b.extras != nil && b.extras.limit != 0 {
		return b.extras.limit, b.extras.limitFor
	}
	if r.MaxHold > 0 {
		return b.acquired.Add(r.MaxHold), MaxHold
	}
	return timing.Never, Expired
}

// setUntil settles until when a lease is believed in, by its deadline and by
// its limit.
func (b *Belief[E]) setUntil(r *Rules) {
	limit, _ := b.limit(r)
	b.until.Store(int64(min(b.deadline.Add(-r.Margin), limit)))
}

// Deadline is until when the store certainly holds a key for ttl after a
// request was sent: less what two clocks drift apart meanwhile, and the
// millisecond to which it rounds.
func (r *Rules) Deadline(sent timing.Instant, ttl time.Duration) timing.Instant {
	return sent.Add(Validity(ttl, r.Drift))
}

// TooOld reports whether a grant for ttl would be over, as its request was sent
// too long ago.
func (r *Rules) TooOld(sent, now timing.Instant, ttl time.Duration) bool {
	return now >= r.Deadline(sent, ttl).Add(-r.Margin)
}

// Validity is for how long a key is certainly held whose TTL the store counts
// by a clock of its own.
func Validity(ttl time.Duration, drift float64) time.Duration {
	return time.Duration(float64(ttl)*(1-drift)/(1+drift)) - time.Millisecond
}

// Owner is an owner token, inside the lease: a string would cost each of very
// many leases 16 bytes more, and a heartbeat one more place in memory to read.
// It is written once, before it is read.
type Owner [store.OwnerLen]byte

// NewOwner makes one of 128 random bits, so that no two acquisitions share one,
// not even those of a process that was cloned from a snapshot, for which a
// counter would repeat.
func NewOwner() (token Owner) {
	var raw [16]byte
	rand.Read(raw[:]) // never fails: see crypto/rand
	base64.RawURLEncoding.Encode(token[:], raw[:])
	return token
}

// String is the token without a copy; "" if there is none yet.
func (o *Owner) String() string {
	if o[0] == 0 {
		return ""
	}
	return unsafe.String(&o[0], len(o)) //nolint:gosec // it is not written any more
}

// Operation is the context of what runs under a lease. It is made when it is
// first asked for, since it takes as much memory as the rest of a lease, and a
// program may hold very many without ever selecting on their ends.
type Operation struct {
	//nolint:containedctx // given to Acquire, or what the observer made of it; nil until granted
	values context.Context
	made   atomic.Pointer[Context]
}

// Context is one that ends with a cause. While the store is asked for a lease
// it is the question's, and becomes the operation's if the answer is yes: so an
// acquire makes only one.
type Context struct {
	//nolint:containedctx // it is the holder's
	Ctx     context.Context
	Cancel  context.CancelCauseFunc
	Unwatch func() bool   // stops watching the caller's; nil without. As guarded as the lease
	Freeing asking.Valued // of the request that frees the lease
}

// Begin derives it from parent, in place.
func (c *Context) Begin(parent context.Context) *Context {
	c.Ctx, c.Cancel = context.WithCancelCause(parent)
	return c
}

// ErrReleased is the cause of an operation's context after a clean release.
var ErrReleased = fmt.Errorf("lockbeat: lease released: %w", context.Canceled)

// releasedContext is for those who ask for it after the release only.
var releasedContext = func() *Context {
	c := new(Context).Begin(context.Background())
	c.Cancel(ErrReleased)
	return c
}()

// Begin gives the operation what its context derives from, unless it has one
// that was a question's. It panics if there is none: later nobody would free the
// lease.
func (o *Operation) Begin(values context.Context) {
	if values == nil {
		panic("lockbeat: AcquireEnd of an Observer has returned no context: let it return the " +
			"one that it is given, or one made of it")
	}
	o.values = values
}

// Begun reports whether the caller has the lease: else it is about to.
func (o *Operation) Begun() bool { return o.values != nil }

// Context is the operation's.
func (o *Operation) Context() *Context {
	if c := o.made.Load(); c != nil {
		return c
	}
	c := new(Context).Begin(o.values)
	if !o.made.CompareAndSwap(nil, c) { // it has just been made, or ended
		c.Cancel(nil)
	}
	return o.made.Load()
}

// Made is the context if it was made, and is not that of a lease that was
// released before; else nil.
func (o *Operation) Made() *Context {
	if c := o.made.Load(); c != releasedContext {
		return c
	}
	return nil
}

// Seen is the context for observers. If it was not asked for yet, it is the one
// that it would derive from.
func (o *Operation) Seen() context.Context {
	if c := o.Made(); c != nil {
		return c.Ctx
	}
	return o.values
}

// Ask sets the context of a question, in room for it.
func (o *Operation) Ask(ctx context.Context, room *Context) { o.made.Store(room.Begin(ctx)) }

// Drop ends a context that is not to be the operation's. Only before the lease
// is granted.
func (o *Operation) Drop() {
	if c := o.made.Swap(nil); c != nil {
		c.Cancel(nil)
	}
}

// End ends the operation's context, even if it is not made yet. The first cause
// counts.
func (o *Operation) End(cause error) {
	if o.made.Load() == nil {
		c := releasedContext
		if cause != ErrReleased { //nolint:errorlint // that very error
			c = new(Context).Begin(o.values)
			c.Cancel(cause)
		}
		if o.made.CompareAndSwap(nil, c) {
			return
		}
	}
	o.made.Load().Cancel(cause)
}
