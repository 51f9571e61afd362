package renewer

import (
	"context"
	"fmt"

	"github.com/lockbeat/lockbeat/renewer/internal/asking"
	"github.com/lockbeat/lockbeat/renewer/internal/desk"
	"github.com/lockbeat/lockbeat/renewer/internal/lease"
	"github.com/lockbeat/lockbeat/renewer/store"
)

var singleClaims asking.Single[store.Claim]

// contend asks the store until the lock is ours, from the head of its queue:
// one contender a process and name. Between two questions it waits for
// whichever comes first of a wake-up, the end of the TTL that the store told,
// and a slow poll.
func (c *call) contend(ctx context.Context) (sent instant, err error) {
	if c.aside {
		if sent, err = c.ask(ctx); sent != 0 || err != nil {
			return sent, err
		}
		if err := c.queueUp(ctx); err != nil || c.given {
			return 0, err
		}
	}
	asked := c.request.Limit != nil && c.takeOver()
	if asked && c.request.Try {
		return 0, c.refuse()
	}
	for failures, woken := 0, false; ; asked = false {
		if !asked {
			sent, err := c.ask(ctx)
			if sent == 0 && (woken || c.freed) {
				c.k.desk.WasFalse(c.l.key(), c.freed, c.k.clock.AtMost())
			}
			if err == nil && sent == 0 && c.newest != nil {
				err = c.newest.check(ctx, c)
			}
			if err != nil || sent != 0 {
				return sent, err
			}
		}
		woken, err = c.await(ctx, c.pause(&failures))
		if err != nil {
			return 0, err
		}
	}
}

// queueUp returns when a call that has found no slot free is at the front of
// its queue. As long as slots are free, callers ask side by side. A question
// that was not answered may have got it a slot: that is given back, as it would
// keep those before it in the queue waiting.
func (c *call) queueUp(ctx context.Context) error {
	if c.unsettled != 0 {
		c.renounce(ctx, c.unsettled)
	}
	c.aside = false
	var err error
	c.given, err = c.wait(ctx)
	return err
}

// renounce gives back what a question that was sent at an instant, or before,
// has got the call, or may yet get it. It goes on under another owner token:
// the question may still have this one.
func (c *call) renounce(ctx context.Context, sent instant) {
	k, old := c.k, c.l
	c.l, c.room = k.newLease(ctx, old.name, old.label)
	c.l.belief.AskAgain(&old.belief, lease.NewOwner())
	old.op.Drop()
	k.desk.Swap(old.key(), old, c.l)
	hold := old.keyOf(&old.belief.Owner)
	if c.unsettled = 0; c.request.Limit == nil { // the place has the claim of that owner
		hold.Place, c.place = c.place.Number, desk.Place{}
	}
	k.cleaner.Disown(old.orphan(hold), sent)
}

// ask puts the claim to the store once. It returns when the request was sent if
// it was granted, an error if the call is over, and neither if the caller
// should wait and ask again.
func (c *call) ask(ctx context.Context) (sent instant, err error) {
	q, err := c.open(ctx)
	if err != nil {
		return 0, err
	}
	request, place := q.begin(ctx)
	claims := singleClaims.Take(q.claim(ctx, place))
	all := claims[:]
	if c.request.Limit != nil && c.asksForOthers() {
		all = c.claimOthers(all)
	}
	grants := c.k.store.Acquire(request, all)
	own := asking.GrantOf(grants, 0, len(all))
	if own.Late && !q.isFresh() {
		grants = c.k.store.Acquire(request, all)
		own = asking.GrantOf(grants, 0, len(all))
	}
	if own.Late {
		q.sent = c.place.Sent
	}
	singleClaims.Put(claims)
	q.end(request)
	if len(c.others) > 0 {
		c.give(grants, &own, q.sent)
	}
	return q.judge(ctx, own)
}

// noLimit is the error for a limit of 0 or less.
func (c *call) noLimit() error {
	if fault := checkLimit(c.limit); fault != nil {
		return c.fail(ErrConfig, fault)
	}
	return c.fail(ErrBusy, ErrLimitClosed)
}

// disagree tells of a limit that more hold than this caller would admit, once
// for each name.
func (c *call) disagree(held int) {
	if c.k.desk.FirstTime(c.l.key()) {
		c.k.fault("limit", c.l.name, fmt.Errorf("%d hold it, and this process admits %d: others "+
			"have a higher limit, or it was lowered a moment ago", held, c.limit))
	}
}
