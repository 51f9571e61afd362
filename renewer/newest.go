package renewer

import (
	"context"
	"errors"
	"time"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/internal/desk"
	"github.com/lockbeat/lockbeat/renewer/internal/lease"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// noteAgain is when a call that waits notes itself again at the store, where
// notes lapse after a minute.
const noteAgain = 20 * time.Second

// newestCall is what a call has of whom none but the newest of its kind is to
// wait.
type newestCall struct {
	*desk.Newest

	kind  Newest
	store contract.Replacer
	id    string      // the owner token with which it asks
	since int64       // when it was made, by the store, which has noted it; 0 before
	again *time.Timer // tells it to note itself again
}

// newestOf is for a call of a kind, which is about to begin.
func newestOf(kind Newest, l *Lease) *newestCall {
	s, _ := l.k.store.(contract.Replacer) // see checkNewness
	l.belief.Owner = lease.NewOwner()
	id := string(l.belief.Owner[:]) // the lease may be handed to it with another one
	n := &newestCall{Newest: desk.NewNewest(), kind: kind, store: s, id: id}
	n.again = time.AfterFunc(noteAgain, n.Tell)
	return n
}

// nudged is told when a newer call may have come; nil, which never is, for a
// call of no such kind.
func (n *newestCall) nudged() <-chan struct{} {
	if n == nil {
		return nil
	}
	return n.Nudge
}

// endFront ends the operation of this process that has the lock, for a call
// that asks for l and waits behind it, if it replaces. The store is to know of
// such a call.
func (n *newestCall) endFront(l *Lease) {
	n.Tell()
	if n.kind != NewestReplaces {
		return
	}
	k := l.k
	b := k.lock()
	news := losses{b: b, now: k.clock.Now()}
	if front := k.desk.Last(l.key()).Has; front != nil && front.belief.Held() {
		news.lose(front, ReasonReplaced)
		front.belief.Why().By = k.holder(l).String()
	}
	b.Unlock()
	news.deliver()
}

// check returns the error of a call that is not the newest any more. It asks
// the store, which notes the call as the newest, and breaks the lease of
// another owner if it replaces. It returns no error, and soon, when the call's
// time is over or the store is away: its caller sees to that.
func (n *newestCall) check(ctx context.Context, c *call) error {
	k := c.k
	patient, cancel := ctx, func() {}
	if c.until != never {
		patient, cancel = context.WithTimeout(ctx, c.until.Sub(k.clock.AtMost()))
	}
	defer cancel()
	select {
	case n.Asking() <- struct{}{}:
		defer func() { <-n.Asking() }()
	case <-c.storeGone():
		return nil
	case <-patient.Done():
		if ctx.Err() != nil {
			return c.cancelled(ctx)
		}
		return nil
	}
	if k.desk.Ousted(n.Newest) {
		return c.fail(ErrBusy, ErrReplaced)
	}
	k.listen() // for a newer one
	request, end := context.WithTimeout(patient, k.cfg.RequestTimeout)
	defer end()
	since, err := n.store.Replace(request, contract.Replacement{
		Name: c.l.name, Owner: n.id, By: k.holder(c.l), Newness: c.newness(),
		Break: n.kind == NewestReplaces,
	})
	if since != 0 || err != nil {
		n.heard(k)
	}
	switch {
	case errors.Is(err, ErrRejected):
		return c.fail(ErrUnavailable, storeError{err})
	case err != nil: // the next question finds out what is wrong
		return nil
	case since == 0:
		n.since = 0
		return c.fail(ErrBusy, ErrReplaced)
	}
	n.since = since
	n.again.Reset(noteAgain)
	return nil
}

// newness is what the store is told of a call that gives way to newer ones.
func (c *call) newness() store.Newness {
	n := store.Newness{Rank: c.request.Rank}
	made := c.begun
	if c.newest != nil {
		n.Since, made = c.newest.since, c.k.desk.Made(c.newest.Newest)
	}
	n.Age = max(c.k.clock.AtMost().Sub(made), 1)
	return n
}

// heard notes that the store has heard of the call, or may have.
func (n *newestCall) heard(k *Keeper) { k.desk.Heard(n.Newest, k.clock.AtMost()) }

// end ends what is kept of a call for a lease, here and, unless it has the
// lock, at the store: an older call that is late must not take that for newer.
// There a note lapses by itself, so that no caller waits for its end.
func (n *newestCall) end(l *Lease, granted bool) {
	k := l.k
	n.again.Stop()
	k.desk.Forget(l.key(), n.Newest)
	b := k.lock()
	defer b.Unlock()
	if granted || n.since == 0 || b.phase >= phaseFree {
		return
	}
	r := contract.Replacement{Name: l.name, Owner: n.id, Over: true}
	k.goroutines.run(func() { _, _ = n.store.Replace(k.requests.Limit(), r) })
}
