package lease

import (
	"time"

	"github.com/lockbeat/lockbeat/renewer/internal/timing"
)

// extras is what few leases have: those that met trouble, are contended, or
// were asked for with unusual options. So each of very many leases is small.
type extras[E any] struct {
	lastErr  error          // of the last heartbeat, nil once one is confirmed
	why      *E             // the lease was lost
	lostAt   timing.Instant // when
	notice   time.Duration  // for so long since no other owner could have the lock
	overran  bool           // observers were told that the operation runs on
	freed    bool           // by a shutdown, which did not wait for the operation
	limitFor Reason         // why limit is set
	limit    timing.Instant // where LimitTo or a MaxHold of its own ends it; 0: Rules.MaxHold does
	tokens   *tokens        // for hand-offs; nil if nobody waited when the store was asked
	// When an acquire was sent that was never answered, although a later one
	// was: it may still arrive after the release.
	unsettled timing.Instant
	place     uint64         // which may yet stand in line, for this owner; 0: none
	looked    timing.Instant // the last look: see Look
	least     timing.Instant // until when the store is to hold the key in any case
	manual    time.Duration  // the longest TTL asked for, without a heartbeat
	told      int            // how many callers wait, as the store was told; -1: not known
	onLoss    map[*func()]struct{}
}

// withExtras is the lease's extras, made when it needs them.
func (b *Belief[E]) withExtras() *extras[E] {
	if b.extras == nil {
		b.extras = new(extras[E])
	}
	return b.extras
}

// Plain reports whether the lease was asked for with nothing unusual, and
// nothing unusual has happened to it: so one may be handed to its caller.
func (b *Belief[E]) Plain() bool { return b.extras == nil }

// SetApart has no lease handed to the caller.
func (b *Belief[E]) SetApart() { b.withExtras() }

// Unusual reports whether the lease can't be handed over as it is: there is
// trouble with a heartbeat, HoldAtLeast, Manual.
func (b *Belief[E]) Unusual() bool {
	x := b.extras
	return x != nil && (x.lastErr != nil || x.why != nil || x.unsettled != 0 || x.least != 0 ||
		x.manual != 0)
}

// Why is what the operation was told of its loss, nil if it was not lost.
func (b *Belief[E]) Why() *E {
	if b.extras == nil {
		return nil
	}
	return b.extras.why
}

// NoNotice notes that another owner could have the lock at once when the lease
// was lost.
func (b *Belief[E]) NoNotice() { b.extras.notice = 0 }

// Explain replaces a reason for which no heartbeat is confirmed by a better
// one.
func (b *Belief[E]) Explain(former, err error) {
	if x := b.extras; x != nil && x.lastErr == former { //nolint:errorlint // that very one
		x.lastErr = err
	}
}

// Manual has the lease live without a heartbeat, for ttl at a time: the longest
// that was asked for.
func (b *Belief[E]) Manual(ttl time.Duration) {
	x := b.withExtras()
	x.manual = max(x.manual, ttl)
}

// IsManual reports whether the lease has no heartbeat.
func (b *Belief[E]) IsManual() bool { return b.extras != nil && b.extras.manual != 0 }

// TTL is how long the store holds the key after a request, at the most.
func (b *Belief[E]) TTL(r *Rules) time.Duration {
	if b.IsManual() {
		return b.extras.manual
	}
	return r.TTL
}

// HoldAtLeast has the store hold the key until an instant in any case, or
// longer if that was asked for before.
func (b *Belief[E]) HoldAtLeast(until timing.Instant) {
	x := b.withExtras()
	x.least = max(x.least, until)
}

// Least is until when the store is to hold the key in any case; 0 without.
func (b *Belief[E]) Least() timing.Instant {
	if b.extras == nil {
		return 0
	}
	return b.extras.least
}

// Unsettle notes when a request was sent that was never answered: it may still
// arrive after the release. place is from where; 0 if that is noted, by From.
func (b *Belief[E]) Unsettle(sent timing.Instant, place uint64) {
	x := b.withExtras()
	x.unsettled = sent
	if place != 0 {
		x.place = place
	}
}

// Unsettled is when such a request was sent, 0 if there is none.
func (b *Belief[E]) Unsettled() timing.Instant {
	if b.extras == nil {
		return 0
	}
	return b.extras.unsettled
}

// From notes that the lease was granted as it stood in line, at a place.
func (b *Belief[E]) From(place uint64) { b.withExtras().place = place }

// Place is the place that may yet stand in line for the lease's owner: a request
// from there was never answered, or it stood in line before. 0: there is none.
func (b *Belief[E]) Place() uint64 {
	if b.extras == nil {
		return 0
	}
	return b.extras.place
}

// Told notes how many callers wait, as the store was told; -1 if that is not
// known.
func (b *Belief[E]) Told(n int) { b.withExtras().told = n }

// IsTold reports whether the store was told that n callers wait.
func (b *Belief[E]) IsTold(n int) bool {
	if b.extras == nil {
		return n == 0
	}
	return n == b.extras.told
}

// Free notes that the store has freed the key, although the operation runs on.
func (b *Belief[E]) Free() { b.withExtras().freed = true }

// IsFree reports whether it has.
func (b *Belief[E]) IsFree() bool { return b.extras != nil && b.extras.freed }

// Look is when the lease may be looked at upon a message that came now, once in
// a pause. It is not ok if a look is planned already.
func (b *Belief[E]) Look(now timing.Instant, pause time.Duration) (at timing.Instant, ok bool) {
	x := b.withExtras()
	if x.looked > now {
		return 0, false
	}
	at = now
	if x.looked != 0 {
		at = max(now, x.looked.Add(pause))
	}
	x.looked = at
	return at, true
}

// OnLoss notes a function for Losing, while the lease is held.
func (b *Belief[E]) OnLoss(f *func()) {
	x := b.withExtras()
	if x.onLoss == nil {
		x.onLoss = make(map[*func()]struct{})
	}
	x.onLoss[f] = struct{}{}
}

// NotOnLoss takes it back, unless the lease has been lost: then it is being
// called.
func (b *Belief[E]) NotOnLoss(f *func()) {
	if b.state == stateHeld && b.extras != nil {
		delete(b.extras.onLoss, f)
	}
}

// Losing calls the functions of OnLoss. It needs no lock once the lease is
// lost: none is added any more.
func (b *Belief[E]) Losing() {
	for f := range b.extras.onLoss {
		(*f)()
	}
}

// Tokens notes that tokens for hand-offs came with the grant, at an instant:
// reserved more above Fence, for most hand-offs, until an instant.
func (b *Belief[E]) Tokens(now timing.Instant, reserved, most int, until timing.Instant) {
	b.withExtras().tokens = &tokens{
		granted: now, first: b.Fence, last: b.Fence + int64(reserved), left: most, until: until,
	}
}

// HasTokens reports whether callers waited when the store was asked, so that it
// reserved tokens.
func (b *Belief[E]) HasTokens() bool { return b.extras != nil && b.extras.tokens != nil }

// NextToken is that of the holder after this one, if the lease may be passed on
// by now.
func (b *Belief[E]) NextToken(r *Rules, now timing.Instant) (fence int64, ok bool) {
	return b.extras.tokens.next(b.Fence, now, r.Drift)
}

// tokens are the fencing tokens of one grant, for hand-offs. The token that is
// n above the first is used no earlier than n µs after the grant: so those in
// use do not run ahead of the store's clock, from which tokens go on after the
// store has lost its data.
type tokens struct {
	granted timing.Instant // when the answer came: the store's clock has shown first by then
	first   int64          // the token granted
	last    int64          // the highest reserved, first if none is
	left    int            // hand-offs
	until   timing.Instant // for hand-offs
}

// next is the token above fence, if it may be used by now. The store's clock
// may be slower than ours by the drift.
func (t *tokens) next(fence int64, now timing.Instant, drift float64) (int64, bool) {
	fence++
	elapsed := float64(now.Sub(t.granted)) * (1 - drift) / (1 + drift)
	ok := fence <= t.last && t.left > 0 && now < t.until &&
		float64(fence-t.first)*float64(time.Microsecond) <= elapsed
	return fence, ok
}

// StoppedAtOnce is within what time an operation returns that stops as soon as
// it is told.
const StoppedAtOnce = 10 * time.Millisecond

// NextDue is when the lease is to be attended to: when the store has not
// answered in time; when belief in it ends; or when observers are to hear that
// its operation still runs.
func (b *Belief[E]) NextDue(r *Rules) timing.Instant {
	switch b.state {
	case stateAsking:
		return b.deadline
	case stateHeld:
		return min(b.Until(), b.nextWarning(r))
	case stateLost:
		return b.nextWarning(r)
	default:
		return timing.Never
	}
}

// IsOver reports whether belief in a held lease has ended by the clock.
func (b *Belief[E]) IsOver(now timing.Instant) bool {
	return b.state == stateHeld && b.Until() <= now
}

// nextWarning is when observers are to hear that the operation still runs: when
// others can have the lock, since it is lost; and after Rules.HoldWarning,
// twice that, and so on.
func (b *Belief[E]) nextWarning(r *Rules) timing.Instant {
	switch after := r.HoldWarning; {
	case b.state == stateLost && !b.extras.overran:
		return b.extras.lostAt.Add(max(b.extras.notice, StoppedAtOnce))
	case after < 0, after > time.Duration(timing.Never)>>b.warned: // by neverWarned
		return timing.Never
	default:
		return b.acquired.Add(after << b.warned)
	}
}

// Warned notes that observers are told now.
func (b *Belief[E]) Warned(r *Rules, now timing.Instant) {
	if b.state == stateLost {
		b.extras.overran = true
	}
	for b.nextWarning(r) <= now {
		b.warned++
	}
}

// Times is for how long the lease has been held, and for how long its operation
// has run on since it was lost.
func (b *Belief[E]) Times(now timing.Instant) (heldFor, overrun time.Duration) {
	if at := b.LostAt(); at != 0 {
		return at.Sub(b.acquired), now.Sub(at)
	}
	return now.Sub(b.acquired), 0
}

// LostAt is when the lease was lost, 0 if it was not, or only found so at the
// release.
func (b *Belief[E]) LostAt() timing.Instant {
	if b.extras == nil {
		return 0
	}
	return b.extras.lostAt
}

// Noticed is from when the key of a lost lease may be released: a Margin after
// the loss, which is the notice that its operation was promised; or at once, if
// HoldAtLeast has the store keep the lock from other owners for at least that
// long after the loss.
func (b *Belief[E]) Noticed(r *Rules) timing.Instant {
	x := b.extras
	if Validity(x.least.Sub(x.lostAt), r.Drift) >= r.Margin {
		return x.lostAt
	}
	return x.lostAt.Add(r.Margin)
}
