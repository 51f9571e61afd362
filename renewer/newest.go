package renewer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/internal/queue"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// ErrReplaced means that a newer call has taken the place of this one: see [Replace] and [Latest].
// It comes with [ErrBusy] if the call was waiting, and with [ErrLost] if its operation ran.
var ErrReplaced = errors.New("lockbeat: a newer call has taken its place")

// Rank says how new the work is: a version of what it works on, an ID, or when it was ordered, 1 or
// more. A call of a lower rank than one that has had the lock is [ErrBusy] and [ErrReplaced],
// whether the lock is free or not; one of the same rank is the same work again, and is not. With
// [Latest] and [Replace] the greater rank is the newer call, whoever comes first. A call that has
// none goes by when it was made, also among others that have one: give one to all of a name.
//
// A rank counts as soon as the call has the lock, though the operation fails, for
// 24 h. It takes about 200 bytes of the store's memory, by name. It is for
// locks, in redisstore or memory; else the error is [ErrConfig], as it is below 1.
func Rank(rank int64) Option {
	return func(r request) request { r.rank, r.ranked = rank, true; return r }
}

// newest says that of the calls of one kind none but the newest waits.
type newest uint8

const (
	anyCall newest = iota
	latest
	replace
)

// Latest has the call wait as the only one: it takes the place of a call with Latest or [Replace]
// that waits for the name already, in any process, whose error is [ErrBusy] and [ErrReplaced] then.
// So one runs and one waits, the newest. Calls without such an option keep their places.
//
// The newest is that of the greatest [Rank], or else the one that was made last, as far as the
// store can tell: calls reach it some milliseconds after they are made. One that was made before
// another that has had the lock in the last minute is refused likewise.
//
// It is for locks, in redisstore or memory: with [AtMost], or with one that is none,
// the error is [ErrConfig], as it is where the call does not wait.
func Latest() Option { return func(r request) request { r.newest = latest; return r } }

// Replace is [Latest], and ends the operation that has the lock: the newest call wins. The
// operation's context ends with a [LostError] that is [ErrReplaced], and the call has the lock when
// that operation has returned, at the end of its TTL at the latest; never while it runs by its
// lease. A lease that was taken without Replace hears of it when it is a second old, if it is
// younger, and at its next heartbeat if the message is lost.
func Replace() Option { return func(r request) request { r.newest = replace; return r } }

// checkKind refuses what can't work.
func (k *Keeper) checkKind(r *request) error {
	if r.newest == anyCall && !r.ranked {
		return nil
	}
	if _, ok := k.store.(contract.Replacer); !ok {
		return fmt.Errorf("Replace, Latest, Rank: a %T does not know which call is the newest: "+
			"use one of redisstore or memory", k.store)
	}
	switch {
	case r.limit != nil:
		return errors.New("Replace, Latest, Rank: they are for locks, and not for limits (AtMost)")
	case r.ranked && r.rank < 1:
		return fmt.Errorf("Rank: it is %d; give 1 or more", r.rank)
	case r.try && r.newest != anyCall:
		return errors.New("Replace, Latest: the call must wait: give it a MaxWait above 0, or none")
	}
	return nil
}

// noteAgain is when a call that waits notes itself again at the store, where notes lapse after a
// minute.
const noteAgain = 20 * time.Second

// newestCall is what a call has of whom none but the newest of its kind is to wait.
type newestCall struct {
	kind   newest
	rank   int64
	store  contract.Replacer
	id     string       // the owner token with which it asks
	since  int64        // when it was made, by the store, which has noted it; 0 before
	others *newestCalls // of its name
	// Guarded by Keeper.mu: a newer call of this process has come.
	ousted bool
	// Guarded by Keeper.mu: when the call was made, or later, when the store last heard of an older
	// one of this process. It may take that one for as new as it is, and refuse this one.
	made  instant
	again *time.Timer // tells it to note itself again
	// A newer call may have come, here or elsewhere.
	nudge chan struct{}
}

// newestCalls are those that wait for one name. Guarded by Keeper.mu.
type newestCalls struct {
	calls []*newestCall
	// Full while the store is being asked for one of them: the next asks when that is answered, or
	// what has come later here could come earlier there, and neither would be the newest.
	asking chan struct{}
	heard  instant // when the store last heard of one of them
}

// newestOf is for a call of a kind, which is about to begin.
func newestOf(r *request, l *Lease) *newestCall {
	s, ok := l.k.store.(contract.Replacer)
	if r.newest == anyCall || !ok { // see checkKind
		return nil
	}
	l.owner = newOwner()
	id := string(l.owner[:]) // the lease may be handed to it with another one
	n := &newestCall{
		kind: r.newest, rank: r.rank, store: s, id: id, nudge: make(chan struct{}, 1),
	}
	n.again = time.AfterFunc(noteAgain, n.tell)
	return n
}

// nudged is told when a newer call may have come; nil, which never is, for a call of no such kind.
func (n *newestCall) nudged() <-chan struct{} {
	if n == nil {
		return nil
	}
	return n.nudge
}

func (n *newestCall) tell() {
	if n == nil {
		return
	}
	select {
	case n.nudge <- struct{}{}:
	default:
	}
}

// outranked reports whether a call of a greater rank has the lock in this process, or waits for it
// as the newest. Under k.mu.
func (c *call) outranked() bool {
	rank := c.request.rank
	if rank == 0 {
		return false
	}
	if l := c.k.holderOf(c.l.name); l != nil && l.rank() > rank {
		return true
	}
	all := c.k.newest[c.l.name]
	return all != nil && slices.ContainsFunc(all.calls, func(n *newestCall) bool {
		return n.rank > rank
	})
}

// oust makes way for a call of which none but the newest is to wait: those of its kind that wait in
// this process are told, and if it replaces, the operation of this process that has the lock ends.
// Under k.mu; news are to be delivered without it.
func (c *call) oust(news *losses) {
	k := c.k
	all := k.newest[c.l.name]
	if all == nil {
		all = &newestCalls{asking: make(chan struct{}, 1)}
		k.newest[c.l.name] = all
	}
	for _, n := range all.calls {
		n.ousted = true
		n.tell()
	}
	all.calls = append(all.calls, c.newest)
	c.newest.others, c.newest.made = all, max(c.begun, all.heard)
	front := k.queues.Front(c.l.name)
	if front != nil && front.state == stateHeld && c.newest.kind == replace {
		k.lose(front, ReasonReplaced, k.clock.Now(), news)
		front.lost().By = k.holder(c.l).String()
	}
}

// joinNewest is join for a call of whom none but the newest is to wait. One that is over before it
// has begun takes no place.
func (c *call) joinNewest(ctx context.Context) (*queue.Waiter[*Lease], error) {
	var news losses
	defer news.deliver(c.k)
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	if ctx.Err() != nil {
		return nil, c.cancelled(ctx)
	}
	if c.k.shutdown.phase == phaseRun {
		if c.outranked() {
			return nil, c.refuseReplaced()
		}
		c.oust(&news)
	}
	return c.joinLocked()
}

// checkNewest returns the error of a call that is not the newest any more. It asks the store,
// which notes the call as the newest, and breaks the lease of another owner if it replaces. It
// returns no error, and soon, when the call's time is over or the store is away: its caller sees to
// that.
func (c *call) checkNewest(ctx context.Context) error {
	n, k := c.newest, c.k
	if n == nil {
		return nil
	}
	patient, cancel := ctx, func() {}
	if c.until != never {
		patient, cancel = context.WithTimeout(ctx, c.until.Sub(k.clock.AtMost()))
	}
	defer cancel()
	select {
	case n.others.asking <- struct{}{}:
		defer func() { <-n.others.asking }()
	case <-c.storeGone():
		return nil
	case <-patient.Done():
		if ctx.Err() != nil {
			return c.cancelled(ctx)
		}
		return nil
	}
	k.mu.Lock()
	ousted := n.ousted
	k.mu.Unlock()
	if ousted {
		return c.refuseReplaced()
	}
	k.listen() // for a newer one
	request, end := context.WithTimeout(patient, k.cfg.RequestTimeout)
	defer end()
	since, err := n.store.Replace(request, contract.Replacement{
		Name: c.l.name, Owner: n.id, By: k.holder(c.l), Newness: c.newness(),
		Break: n.kind == replace,
	})
	if since != 0 || err != nil {
		c.storeHeard()
	}
	switch {
	case errors.Is(err, ErrRejected):
		return c.fail(ErrUnavailable, storeError{err})
	case err != nil: // the next question finds out what is wrong
		return nil
	case since == 0:
		n.since = 0
		return c.refuseReplaced()
	}
	n.since = since
	n.again.Reset(noteAgain)
	return nil
}

// newness is what the store is told of a call that gives way to newer ones.
func (c *call) newness() store.Newness {
	n := store.Newness{Rank: c.request.rank}
	switch {
	case c.newest != nil:
		n.Since = c.newest.since
	case n.Rank == 0:
		return n
	}
	made := c.begun
	if c.newest != nil {
		c.k.mu.Lock()
		made = c.newest.made
		c.k.mu.Unlock()
	}
	n.Age = max(c.k.clock.AtMost().Sub(made), 1)
	return n
}

// storeHeard notes that the store has heard of a call, or may have: see newestCall.made.
func (c *call) storeHeard() {
	if c.newest == nil {
		return
	}
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	all := c.newest.others
	all.heard = c.k.clock.AtMost()
	for i := slices.Index(all.calls, c.newest) + 1; i < len(all.calls); i++ {
		all.calls[i].made = all.heard
	}
}

// refuseReplaced is the error of a call that a newer one has replaced.
func (c *call) refuseReplaced() error { return c.fail(ErrBusy, ErrReplaced) }

// waitsNoMore ends what newestCall keeps of a call, here and, unless it has the lock, at the store:
// an older call that is late must not take that for newer. There a note lapses by itself, so that
// no caller waits for its end.
func (c *call) waitsNoMore(granted bool) {
	n, k, name := c.newest, c.k, c.l.name
	n.again.Stop()
	k.mu.Lock()
	defer k.mu.Unlock()
	if all := k.newest[name]; all != nil {
		all.calls = slices.DeleteFunc(all.calls, func(o *newestCall) bool { return o == n })
		if len(all.calls) == 0 {
			delete(k.newest, name)
		}
	}
	if granted || n.since == 0 || k.shutdown.phase >= phaseFree {
		return
	}
	r := contract.Replacement{Name: name, Owner: n.id, Over: true}
	k.goroutines.run(func() { _, _ = n.store.Replace(k.requests.Limit(), r) })
}
