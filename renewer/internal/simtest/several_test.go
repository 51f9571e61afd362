package simtest_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

// several is a turn under two names at once, or none.
func (c *caller) several(ctx context.Context, life *life) {
	k, first, begun := life.keeper, c.dice.IntN(c.w.plan.names-1), c.w.now()
	requests := make([]renewer.Request, 2)
	for i := range requests {
		requests[i].Name = fmt.Sprint("lock ", first+i)
		if c.w.plan.limit > 0 {
			requests[i].Limit = func() int { return c.w.plan.limit }
		}
	}
	var all, leases []*renewer.Lease
	var errs []error
	trips(func() { all, errs = k.AcquireEach(ctx, requests) })
	var beliefs []*belief
	for i, l := range all {
		switch {
		case l != nil:
			leases = append(leases, l)
			beliefs = append(beliefs, c.w.ledger.begin(c.w, c.p.id, life.link, l, false))
		case errs[i] != nil:
			c.refused(ctx, errs[i], c.w.now()-begun)
		default:
			c.w.ledger.violate(contract, "%q has neither a lease nor an error", requests[i].Name)
		}
	}
	if len(leases) == len(requests) {
		c.w.tally.count(bothHeld)
		c.hold(ctx, beliefs[1], leases[1], 0)
	}
	for i, b := range beliefs {
		c.probe(b, leases[i])
		c.w.tally.count(believed)
		c.w.ledger.end(c.w, b, c.w.now(), "release")
		c.w.ledger.returned(b, c.w.now())
	}
	abort := c.dice.chance(.05) // as after a panic
	trips(func() {
		for _, err := range k.ReleaseEach(ctx, leases, abort) {
			var lost *renewer.LostError
			if err != nil && !errors.As(err, &lost) && !errors.Is(err, renewer.ErrUnavailable) {
				c.w.ledger.violate(contract, "a release failed by %v", err)
			}
		}
	})
	pass(c.dice.between(1, 5*time.Millisecond))
}
