package lease_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/renewer/internal/lease"
	"github.com/lockbeat/lockbeat/renewer/internal/timing"
)

// at is an instant so long after the first.
func at(d time.Duration) timing.Instant { return timing.Instant(d) }

var errDown = errors.New("down")

type belief = lease.Belief[lease.Loss]

func rules() *lease.Rules {
	return &lease.Rules{
		TTL: 12 * time.Second, Margin: 2 * time.Second, Drift: 0.001, HoldWarning: time.Minute,
	}
}

const sent, now = time.Second, 3 * time.Second

// believed is until when belief lasts by a request that was sent at an instant.
func believed(r *lease.Rules, sent time.Duration) timing.Instant {
	return at(sent + time.Duration(float64(r.TTL)*(1-r.Drift)/(1+r.Drift)) - time.Millisecond -
		r.Margin)
}

func held(r *lease.Rules, maxHold time.Duration) *belief {
	b := new(belief)
	b.Ask(at(0), false)
	b.Grant(r, at(sent), at(now), maxHold)
	return b
}

// Belief is counted from requests, never from answers, and only moves on.
func TestBeliefIsCountedFromRequests(t *testing.T) {
	t.Parallel()
	r := rules()
	b := new(belief)
	b.Ask(at(0), false)
	assert.True(t, b.Asking())
	assert.Zero(t, b.Until())
	b.Grant(r, at(sent), at(now), 0)
	assert.True(t, b.Held())
	assert.Equal(t, at(now), b.Since())
	assert.Equal(t, believed(r, sent), b.Until())
	assert.True(t, b.Renewed(r, at(5*time.Second), r.TTL))
	assert.False(t, b.Renewed(r, at(4*time.Second), r.TTL), "its answer was overtaken")
	assert.Equal(t, believed(r, 5*time.Second), b.Until())
	b.Missed(errDown)
	assert.Equal(t, believed(r, 5*time.Second), b.Until())
	assert.Equal(t, 2, b.Renewals())
	assert.False(t, r.TooOld(at(sent), believed(r, sent)-1, r.TTL))
	assert.True(t, r.TooOld(at(sent), believed(r, sent), r.TTL))
}

func TestALimitEndsBeliefAndIsTheReason(t *testing.T) {
	t.Parallel()
	const later = time.Minute
	abandoned := lease.MaxHold + 1
	for name, c := range map[string]struct {
		keepers, calls time.Duration // MaxHold
		limited        time.Duration // by LimitTo
		until          time.Duration // 0: by the heartbeats
		loss           lease.Loss
	}{
		"none":                  {loss: lease.Loss{Reason: lease.Expired}},
		"the keeper's":          {keepers: later, until: now + later, loss: lease.Loss{Reason: lease.MaxHold}},
		"the call's":            {calls: later, until: now + later, loss: lease.Loss{Reason: lease.MaxHold, MaxHold: later}},
		"the call's is shorter": {keepers: 2 * later, calls: later, until: now + later, loss: lease.Loss{Reason: lease.MaxHold, MaxHold: later}},
		"the call has no bound": {keepers: later, calls: -1, loss: lease.Loss{Reason: lease.Expired}},
		"limited":               {limited: later, until: later, loss: lease.Loss{Reason: abandoned}},
		"limited later":         {keepers: later, limited: 2 * later, until: now + later, loss: lease.Loss{Reason: lease.MaxHold}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rules()
			r.MaxHold = c.keepers
			b := held(r, c.calls)
			b.Renewed(r, at(10*time.Minute), r.TTL)
			if c.limited != 0 {
				b.LimitTo(r, at(c.limited), abandoned)
			}
			until := at(c.until)
			if c.until == 0 {
				until = believed(r, 10*time.Minute)
			}
			assert.Equal(t, until, b.Until())
			assert.False(t, b.IsOver(until-1))
			assert.True(t, b.IsOver(until))
			loss := b.Expire(r, until)
			assert.GreaterOrEqual(t, loss.Left, r.Margin, "the notice")
			loss.Left = 0
			assert.Equal(t, c.loss, loss)
			assert.True(t, b.Lost())
			assert.Zero(t, b.Until())
			assert.Equal(t, until, b.LostAt())
		})
	}
}

func TestALossTellsTheLastFailureIfThatIsWhy(t *testing.T) {
	t.Parallel()
	r := rules()
	b := held(r, 0)
	b.Missed(errDown)
	loss := b.Lose(lease.Expired, believed(r, sent))
	assert.Equal(t, lease.Loss{Reason: lease.Expired, Left: r.Margin, Err: errDown}, loss)

	b = held(r, 0)
	b.Missed(errDown)
	b.Renewed(r, at(now), r.TTL)
	assert.NoError(t, b.Lose(lease.Expired, at(now)).Err, "that one does not matter any more")

	b = held(r, 0)
	b.Missed(errDown)
	assert.Equal(t, lease.Loss{Reason: lease.Taken}, b.Lose(lease.Taken, at(now)))

	b = held(r, 0)
	late := errors.New("no answer yet")
	b.Missed(late)
	b.Explain(errors.New("another"), errDown)
	assert.Equal(t, late, b.Lose(lease.Expired, at(now)).Err)

	b = held(r, 0)
	b.Explain(late, errDown) // of a lease that misses none
	b.Missed(late)
	b.Explain(late, errDown)
	assert.Equal(t, errDown, b.Lose(lease.Expired, at(now)).Err)
	b.Tell(&loss)
	assert.Same(t, &loss, b.Why())
	b.End()
	assert.True(t, b.Released())
	assert.Same(t, &loss, b.Why(), "also when the operation has returned")
}

// The store's time, the owner and the tokens go on; the limits and the fencing
// token are new.
func TestALeaseIsPassedOn(t *testing.T) {
	t.Parallel()
	r := rules()
	b := held(r, 0)
	b.Owner, b.Fence = lease.NewOwner(), 7
	b.LimitTo(r, at(now+time.Second), lease.MaxHold+1)
	b.Tokens(at(now), 10, 2, at(time.Minute))
	b.Told(3)
	next := new(belief)
	next.Ask(at(0), false)
	assert.True(t, next.Plain())
	fence, ok := b.NextToken(r, at(now+time.Second))
	assert.True(t, ok)
	b.From(9)
	b.Transfer(r, next, 0, fence, at(now+time.Second/2))
	assert.Equal(t, uint64(9), next.Place(), "the owner may yet stand in line there")
	assert.True(t, b.Released())
	assert.Zero(t, b.Until())
	assert.True(t, next.Held())
	assert.Equal(t, believed(r, sent), next.Until())
	assert.Equal(t, at(now+time.Second/2), next.Since())
	assert.Equal(t, b.Owner, next.Owner)
	assert.Equal(t, int64(8), next.Fence)
	assert.True(t, next.IsTold(3))
	assert.False(t, next.Unusual())
	assert.True(t, next.HasTokens())
	assert.False(t, b.HasTokens())

	last := new(belief)
	fence, _ = next.NextToken(r, at(now+time.Second))
	next.Transfer(r, last, time.Second, fence, at(now+time.Second))
	assert.Equal(t, at(now+2*time.Second), last.Until(), "a bound of its own")
	_, ok = last.NextToken(r, at(now+time.Second))
	assert.False(t, ok, "as many hand-offs as are allowed")
}

// A token is not ahead of the store's clock, of which one is due in each
// microsecond.
func TestATokenIsUsedNoEarlierThanTheStoreWouldGiveIt(t *testing.T) {
	t.Parallel()
	r := rules()
	for name, c := range map[string]struct {
		after, until time.Duration
		reserved     int
		want         bool
	}{
		"in the same instant":   {0, time.Second, 10, false},
		"by our clock":          {time.Microsecond, time.Second, 10, false},
		"by the slowest clock":  {1003 * time.Nanosecond, time.Second, 10, true},
		"the last of them":      {time.Millisecond, time.Second, 1, true},
		"none is reserved":      {time.Millisecond, time.Second, 0, false},
		"its time is over":      {time.Second, time.Second, 10, false},
		"its time is near over": {time.Second - 1, time.Second, 10, true},
	} {
		b := held(r, 0)
		b.Tokens(at(now), c.reserved, 1, at(now+c.until))
		fence, ok := b.NextToken(r, at(now+c.after))
		assert.Equal(t, c.want, ok, name)
		assert.Equal(t, int64(1), fence, name)
	}
}

func TestWhenALeaseIsDue(t *testing.T) {
	t.Parallel()
	r := rules()
	b := new(belief)
	b.Ask(at(0), false)
	b.AskUntil(at(now))
	assert.Equal(t, at(now), b.NextDue(r), "the store has not answered")
	b.Grant(r, at(sent), at(now), 0)
	assert.Equal(t, believed(r, sent), b.NextDue(r), "its end")
	b.Renewed(r, at(10*time.Minute), r.TTL)
	assert.Equal(t, at(now+time.Minute), b.NextDue(r), "the first warning")
	b.Warned(r, at(now+time.Minute))
	assert.Equal(t, at(now+2*time.Minute), b.NextDue(r), "twice that")
	b.Warned(r, at(now+7*time.Minute))
	assert.Equal(t, at(now+8*time.Minute), b.NextDue(r))
	heldFor, overrun := b.Times(at(now + time.Minute))
	assert.Equal(t, time.Minute, heldFor)
	assert.Zero(t, overrun)

	loss := b.Lose(lease.Expired, at(now+7*time.Minute))
	assert.Equal(t, at(now+7*time.Minute)+timing.Instant(loss.Left), b.NextDue(r),
		"others can have the lock by then")
	b.NoNotice()
	overran := at(now + 7*time.Minute + lease.StoppedAtOnce)
	assert.Equal(t, overran, b.NextDue(r), "they can already: unless it stops at once")
	b.Warned(r, overran)
	assert.Equal(t, at(now+8*time.Minute), b.NextDue(r))
	heldFor, overrun = b.Times(overran)
	assert.Equal(t, 7*time.Minute, heldFor)
	assert.Equal(t, lease.StoppedAtOnce, overrun)
	b.End()
	assert.Equal(t, timing.Never, b.NextDue(r))

	for name, quiet := range map[string]bool{"for as long as it may be": true, "no one hears": false} {
		b, r := new(belief), rules()
		b.Ask(at(0), quiet)
		if !quiet {
			r.HoldWarning = -1
		}
		b.Grant(r, at(sent), at(now), 0)
		b.Renewed(r, at(time.Hour), r.TTL)
		assert.Equal(t, believed(r, time.Hour), b.NextDue(r), name)
		assert.Equal(t, quiet, b.LongRunning(), name)
	}
}

// The operation has had its notice of a Margin before the key may be freed;
// HoldAtLeast gives it that as well.
func TestWhenTheKeyOfALostLeaseMayBeFreed(t *testing.T) {
	t.Parallel()
	r := rules()
	b := held(r, 0)
	b.Lose(lease.MaxHold, at(now))
	assert.Equal(t, at(now).Add(r.Margin), b.Noticed(r))
	b.HoldAtLeast(at(now).Add(r.Margin))
	assert.Equal(t, at(now).Add(r.Margin), b.Noticed(r), "by a fast clock that is less")
	const enough = 2010 * time.Millisecond
	assert.GreaterOrEqual(t, lease.Validity(enough, r.Drift), r.Margin)
	b.HoldAtLeast(at(now).Add(enough))
	b.HoldAtLeast(at(now))
	assert.Equal(t, at(now), b.Noticed(r))
	assert.Equal(t, at(now).Add(enough), b.Least(), "the longer one stands")
}

func TestALeaseIsLookedAtOnceInAPause(t *testing.T) {
	t.Parallel()
	const pause = 100 * time.Millisecond
	b := held(rules(), 0)
	first, ok := b.Look(at(now), pause)
	assert.True(t, ok)
	assert.Equal(t, at(now), first)
	next, ok := b.Look(at(now+1), pause)
	assert.True(t, ok)
	assert.Equal(t, at(now+pause), next)
	_, ok = b.Look(at(now+2), pause)
	assert.False(t, ok, "one is planned")
	next, ok = b.Look(at(now+time.Second), pause)
	assert.True(t, ok)
	assert.Equal(t, at(now+time.Second), next)
}

// What is unusual about a lease keeps it from being handed over.
func TestWhatIsUnusual(t *testing.T) {
	t.Parallel()
	r := rules()
	for name, do := range map[string]func(*belief){
		"a heartbeat in doubt": func(b *belief) { b.Missed(errDown) },
		"HoldAtLeast":          func(b *belief) { b.HoldAtLeast(at(time.Hour)) },
		"Manual":               func(b *belief) { b.Manual(time.Hour); b.Manual(time.Minute) },
		"an acquire unsettled": func(b *belief) { b.Unsettle(at(now), 9) },
		"lost":                 func(b *belief) { b.Tell(new(lease.Loss)) },
	} {
		b := held(r, 0)
		b.Told(0)
		assert.False(t, b.Unusual(), name)
		do(b)
		assert.True(t, b.Unusual(), name)
		assert.False(t, b.Plain(), name)
		assert.Equal(t, name == "Manual", b.IsManual())
		assert.Equal(t, name == "an acquire unsettled", b.Unsettled() != 0 && b.Place() == 9)
	}
	b := held(r, 0)
	assert.Equal(t, r.TTL, b.TTL(r))
	b.Manual(time.Hour)
	b.Manual(time.Minute)
	assert.Equal(t, time.Hour, b.TTL(r), "the longest that was asked for")
}

// A question under another owner token goes on from where the caller began.
func TestACallerAsksUnderAnotherOwner(t *testing.T) {
	t.Parallel()
	before, b, owner := new(belief), new(belief), lease.NewOwner()
	before.Ask(at(now), true)
	before.Manual(time.Hour)
	assert.Empty(t, before.Owner.String())
	b.AskAgain(before, owner)
	assert.Equal(t, owner.String(), b.Owner.String())
	assert.NotEqual(t, owner, lease.NewOwner())
	assert.Equal(t, at(now), b.Since())
	assert.True(t, b.LongRunning())
	assert.True(t, b.IsManual())
}

func TestWhatTheStoreWasTold(t *testing.T) {
	t.Parallel()
	b := new(belief)
	assert.True(t, b.IsTold(0))
	assert.False(t, b.IsTold(1))
	b.Told(-1)
	assert.False(t, b.IsTold(0))
	b.Told(2)
	assert.True(t, b.IsTold(2))
}

func TestWhoHearsOfALoss(t *testing.T) {
	t.Parallel()
	b := held(rules(), 0)
	heard := 0
	hear, leave := func() { heard++ }, func() { heard += 10 }
	b.OnLoss(&hear)
	b.OnLoss(&leave)
	b.NotOnLoss(&leave)
	b.Lose(lease.Taken, at(now))
	b.NotOnLoss(&hear) // it is being called
	b.Losing()
	assert.Equal(t, 1, heard)
	assert.False(t, b.IsFree())
	b.Free()
	assert.True(t, b.IsFree())
}
