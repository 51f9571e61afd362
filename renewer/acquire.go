package renewer

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Option applies to one Acquire or TryAcquire.
type Option func(request) request

type request struct {
	label     *label        // nil: none
	maxWait   time.Duration // 0: as long as the context lives
	most      int           // in the line behind its head; 0: any number
	least     time.Duration // to be held
	manual    time.Duration // the TTL without a heartbeat; 0: with one
	try       bool
	heartless bool
	endless   bool // see LongRunning
}

// Operation names what the lock is taken for: a static name of low cardinality, such as
// "transfer" or a task's type. Whoever is refused meanwhile reads it, and so does telemetry.
func Operation(name string) Option {
	named := &label{operation: name} // by all leases taken with this option
	return func(r request) request { r.label = named; return r }
}

// MaxWait bounds how long Acquire waits, in the line and for the store, to d. When it runs out the
// error is [ErrHeld], or [ErrUnavailable] if the store could not be asked. Zero or less: no
// waiting, as with TryAcquire. Without this option Acquire waits for as long as its context lives.
func MaxWait(d time.Duration) Option {
	return func(r request) request { r.maxWait, r.try = d, d <= 0; return r }
}

// MaxWaiters refuses the call if n callers of this keeper stand in line for the
// name already, behind the one who has the lock or asks the store for it: an error
// that is [ErrHeld] and [ErrQueueFull]. It bounds the memory and the waiting time
// that a popular name can cost a server. Zero or less, the default: no limit.
func MaxWaiters(n int) Option {
	return func(r request) request { r.most = max(n, 0); return r }
}

// HoldAtLeast keeps the lock for d after it was acquired, even if it is released before:
// then nobody renews it, and it lapses by itself, also if the process ends. It is for work
// that must not be done again so soon, by somebody whose clock is behind. Waiting callers
// are kept waiting. Zero or less, the default: the lock is free when it is released.
func HoldAtLeast(d time.Duration) Option {
	return func(r request) request { r.least = max(d, 0); return r }
}

// Manual takes the lock for d without a heartbeat: the operation extends it itself, by
// [Lease.Extend], or else it is lost, less the clock drift and [Config.Margin], when d
// is over. It is for work that proves between its steps that it makes progress, so that
// one that hangs gives the lock up. d must exceed these; else the error is [ErrConfig].
func Manual(d time.Duration) Option {
	return func(r request) request {
		r.manual = d.Truncate(time.Millisecond)
		r.heartless = true
		return r
	}
}

// LongRunning tells observers, by [AcquireStart].LongRunning, that the operation is no piece of
// work but goes on for as long as it may, as a leader's does. It changes nothing else.
func LongRunning() Option {
	return func(r request) request { r.endless = true; return r }
}

// Acquire waits until the lock on name is ours, in arrival order among
// the callers of this keeper, until ctx ends, or [MaxWait] runs out. It
// outlasts a store that is down meanwhile. Every lease must be released.
//
// The lease is non-nil if and only if the error is nil. The error is an *[Error] whose kind
// errors.Is tells: [ErrHeld], [ErrUnavailable], [ErrShutdown], [ErrName], or ctx's own error.
func (k *Keeper) Acquire(ctx context.Context, name string, opts ...Option) (*Lease, error) {
	var r request
	for _, opt := range opts {
		r = opt(r)
	}
	return k.acquire(ctx, name, r)
}

// TryAcquire asks once and does not wait for anybody: [ErrHeld] if somebody else has the
// lock, [ErrUnavailable] if the store did not answer within [Config.RequestTimeout], or
// within [MaxWait] if that is given and shorter. Otherwise it is like Acquire.
func (k *Keeper) TryAcquire(ctx context.Context, name string, opts ...Option) (*Lease, error) {
	var r request
	for _, opt := range opts {
		r = opt(r)
	}
	r.try = true
	return k.acquire(ctx, name, r)
}

// call is one Acquire under way.
type call struct {
	k         *Keeper
	l         *Lease
	room      *opContext // for its context; nil once used
	request   request
	begun     instant
	bound     instant // where MaxWait ends it; never without
	attempts  int
	late      int // attempts that were not answered within Config.RequestTimeout
	contended bool
	seen      glimpse // what the store last answered, while it was not "yours"
	behind    glimpse // whom this call was last seen behind, in this process or elsewhere
	queued    bool    // the store has a place in its line for us
	refused   instant // when the last question was sent that was answered StatusTaken; 0 without
	freed     bool    // the name was free between the last two of these
	reserved  int     // tokens for hand-offs
	reserves  bool    // some were asked for, by any question
	// when the last question was sent that was not answered and may still take effect; 0 without
	unsettled instant
	counted   bool // in Keeper.calls. Guarded by Keeper.mu
	over      bool // it has returned, rather than been left by a panic
}

func (k *Keeper) acquire(ctx context.Context, name string, r request) (*Lease, error) {
	if fault := nameFault(name); fault != nil {
		return nil, &Error{Op: "acquire", Name: name, Kind: ErrName, Err: fault}
	}
	if r.heartless {
		if err := k.checkManual(r.manual); err != nil {
			return nil, &Error{Op: "acquire", Name: name, Kind: ErrConfig, Err: err}
		}
	}
	if r.label == nil {
		r.label = noLabel
	}
	start := AcquireStart{Name: name, Operation: r.label.operation, LongRunning: r.endless}
	if k.observer != nil {
		ctx = k.observer.AcquireStart(ctx, start)
	}
	c := &call{k: k, request: r, begun: k.clock.AtMost(), bound: never}
	c.l, c.room = k.newLease(ctx, name, r.label)
	if r.maxWait > 0 {
		c.bound = c.begun.Add(r.maxWait)
	}
	if r.heartless {
		c.l.withRare().manual = r.manual
	}
	defer c.rescue()
	l, err := c.obtain(ctx, start)
	c.over = true
	if err != nil {
		k.observeRefusal(ctx, start, c, err)
	}
	return l, err
}

func (c *call) obtain(ctx context.Context, start AcquireStart) (*Lease, error) {
	handed, err := c.queue(ctx)
	if err != nil {
		return nil, err
	}
	if handed {
		return c.received(ctx, start), nil
	}
	sent, err := c.run(ctx)
	if err != nil {
		return nil, err
	}
	return c.grant(ctx, start, sent), nil
}

// rescue is for a call that an observer or the store has left by a panic, or by ending the
// goroutine: the next caller gets its turn, and what the store may have given is freed. The panic
// goes on.
func (c *call) rescue() {
	if c.over {
		return
	}
	defer c.exit() // last, so that Shutdown does not miss the key
	k, l := c.k, c.l
	k.mu.Lock()
	over := l.state == released // its key has been seen to already
	if c.reserves && !over {
		l.withRare().reserved = true
	}
	k.mu.Unlock()
	if over {
		return
	}
	unsettled := c.unsettled
	if c.attempts > 0 {
		unsettled = k.clock.AtMost() // the last question may be under way still
	}
	l.endContext(errReleased)
	k.discard(l, unsettled)
}

// run asks the store from the head of the line. It returns when the
// request that was granted was sent.
func (c *call) run(ctx context.Context) (sent instant, err error) {
	k := c.k
	c.l.owner = newOwner()
	sent, err = c.contend(ctx)
	if err != nil {
		c.l.dropContext()
		k.leave(c.l)
		if c.unsettled != 0 || c.queued { // the store may give it to us yet
			hold := Hold{Name: c.l.name, Owner: c.l.owner}
			if c.reserves {
				hold.Used = 1
			}
			k.cleaner.disown(c.l.orphan(hold), c.unsettled)
		}
		c.exit()
		return 0, err
	}
	return sent, nil
}

// grant makes a lease of a claim that the store has granted.
func (c *call) grant(ctx context.Context, start AcquireStart, sent instant) *Lease {
	k, l := c.k, c.l
	now := k.clock.AtMost()
	caller := ctx
	if k.observer != nil {
		ctx = k.observer.AcquireEnd(ctx, AcquireEnd{
			AcquireStart: start, Wait: now.Sub(c.begun), Attempts: c.attempts, Fence: l.fence,
			Contended: c.contended, Holder: c.holder().holder, HeldFor: c.holder().heldFor,
		})
		l.dropContext() // the observer's, which carries its span, takes its place
	}
	l.values = ctx
	var news losses
	settled := c.enter(sent, now, &news)
	settled()
	news.deliver(k)
	if k.cfg.CancelGrace > 0 {
		k.watchCaller(caller, l)
	}
	return l
}

// enter puts a lease that the store has granted on the books. What it returns is to be called.
func (c *call) enter(sent, now instant, news *losses) (settled func()) {
	k, l := c.k, c.l
	k.mu.Lock()
	defer k.mu.Unlock() // also if the store panics when it is asked for the shard
	if c.request.least > 0 {
		l.withRare().least = now.Add(c.request.least)
	}
	k.begin(l, sent, now)
	if c.unsettled != 0 {
		l.withRare().unsettled = c.unsettled
	}
	c.bookTokens(now)
	settled = k.settleLine(l)
	if k.shutdown.phase >= phaseTell { // Shutdown has dealt with the others already
		k.shutdown.stillRan++
		k.lose(l, ReasonShutdown, now, news)
	}
	c.exitLocked() // not idle: the lease is on the books
	return settled
}

func (k *Keeper) observeRefusal(ctx context.Context, start AcquireStart, c *call, err error) {
	if k.observer == nil {
		return
	}
	k.observer.AcquireEnd(ctx, AcquireEnd{
		AcquireStart: start, Wait: k.clock.AtMost().Sub(c.begun), Attempts: c.attempts,
		Contended: c.contended, Holder: c.holder().holder, HeldFor: c.holder().heldFor, Err: err,
	})
}

// holder is who had the lock when last seen, for observers.
func (c *call) holder() glimpse {
	if c.seen.holder != (Holder{}) {
		return c.seen
	}
	return c.behind
}

// exit counts a call out, once.
func (c *call) exit() {
	c.k.mu.Lock()
	c.exitLocked()
	c.k.mu.Unlock()
}

func (c *call) exitLocked() {
	if c.counted {
		c.counted = false
		c.k.books.callOut()
	}
}

// fail makes the caller's error.
func (c *call) fail(kind, cause error) error {
	e := &Error{
		Op: "acquire", Name: c.l.name, Kind: kind, Err: cause,
		Waited: c.k.clock.AtMost().Sub(c.begun), Attempts: c.attempts,
	}
	if !errors.Is(kind, ErrUnavailable) {
		e.Holder, e.HeldFor, e.RetryAfter = c.seen.holder, c.seen.heldFor, c.seen.ttl
	}
	return e
}

// cancelled makes the error for a caller whose context has ended.
func (c *call) cancelled(ctx context.Context) error {
	cause := context.Cause(ctx)
	if cause == ctx.Err() { //nolint:errorlint // whether it is the same value, not the same kind
		cause = nil
		if c.seen.err != nil { // which may be what the caller waited for
			cause = storeError{c.seen.err}
		}
	}
	return c.fail(ctx.Err(), cause)
}

// refuse makes the error for a caller who may not wait any longer, from what the store last said.
func (c *call) refuse() error {
	if c.seen.err != nil {
		return c.fail(ErrUnavailable, storeError{c.seen.err})
	}
	return c.fail(ErrHeld, nil)
}

// glimpse is what was last seen of a lock that is not ours.
type glimpse struct {
	known   bool
	holder  Holder
	heldFor time.Duration
	ttl     time.Duration
	err     error // the store could not be asked
}

// errNoAnswer is what callers get to hear who run out of time before
// anybody knows who has the lock.
var errNoAnswer = errors.New("the store has not answered in time")

// answerTo gives the answer to item i of n, if the store has kept its contract and given n of them.
func answerTo[A Answer | Grant](answers []A, i, n int, broken func(error) A) A {
	if len(answers) == n {
		return answers[i]
	}
	return broken(fmt.Errorf("the store gave %d answers to %d questions", len(answers), n))
}

func brokenAnswer(err error) Answer { return Answer{Err: err} }
func brokenGrant(err error) Grant   { return Grant{Err: err} }
