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
	tries := make([]renewer.Try, 2)
	for i := range tries {
		tries[i].Name = fmt.Sprint("lock ", first+i)
		if c.w.plan.limit > 0 {
			tries[i].Limit = func(string) int { return c.w.plan.limit }
		}
	}
	tripped := trips(func() { k.TryEach(ctx, tries) })
	var leases []*renewer.Lease
	var beliefs []*belief
	for _, t := range tries {
		switch {
		case t.Lease != nil:
			leases = append(leases, t.Lease)
			beliefs = append(beliefs, c.w.ledger.begin(c.w, c.p.id, life.link, t.Lease, false))
		case t.Err != nil:
			c.refused(ctx, t.Err, c.w.now()-begun)
		case !tripped:
			c.w.ledger.violate(contract, "%q has neither a lease nor an error", t.Name)
		}
	}
	if len(leases) == len(tries) {
		c.w.tally.count(bothHeld)
		c.hold(ctx, beliefs[1], leases[1], 0)
	}
	for i, b := range beliefs {
		c.probe(b, leases[i])
		c.w.tally.count(believed)
		c.w.ledger.end(c.w, b, c.w.now(), "release")
		c.w.ledger.returned(b, c.w.now())
	}
	free := k.ReleaseEach
	if c.dice.chance(.05) { // as after a panic
		free = k.AbortEach
	}
	trips(func() {
		for _, err := range free(ctx, leases) {
			var lost *renewer.LostError
			if err != nil && !errors.As(err, &lost) && !errors.Is(err, renewer.ErrUnavailable) {
				c.w.ledger.violate(contract, "a release failed by %v", err)
			}
		}
	})
	pass(c.dice.between(1, 5*time.Millisecond))
}
