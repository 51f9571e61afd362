package renewer

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/internal/queue"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// ErrReplaced comes with [ErrBusy] if a newer call took the place of one that waited, and with
// [ErrLost] if its operation ran: see [Newest].
var ErrReplaced = errors.New("lockbeat: a newer call has taken its place")

// noteAgain is when a call that waits notes itself again at the store, where notes lapse after a
// minute.
const noteAgain = 20 * time.Second

// newestCall is what a call has of whom none but the newest of its kind is to wait.
type newestCall struct {
	kind   Newest
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
func newestOf(r *Request, l *Lease) *newestCall {
	s, ok := l.k.store.(contract.Replacer)
	if r.Newest == NewestOff || !ok { // see checkNewness
		return nil
	}
	l.owner = newOwner()
	id := string(l.owner[:]) // the lease may be handed to it with another one
	n := &newestCall{
		kind: r.Newest, rank: r.Rank, store: s, id: id, nudge: make(chan struct{}, 1),
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
	rank := c.request.Rank
	if rank == 0 {
		return false
	}
	if l := c.k.holderOf(c.l.key()); l != nil && l.rank() > rank {
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
	front := k.queues.Front(c.l.key())
	if front != nil && front.state == stateHeld && c.newest.kind == NewestReplaces {
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
	if c.k.admits(&c.request) {
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
		Break: n.kind == NewestReplaces,
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
	n := store.Newness{Rank: c.request.Rank}
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
