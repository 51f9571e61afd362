package renewer

import (
	"errors"

	"github.com/lockbeat/lockbeat/renewer/internal/asking"
	"github.com/lockbeat/lockbeat/renewer/internal/desk"
	"github.com/lockbeat/lockbeat/renewer/internal/lease"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// The front of a limit's queue asks for those behind it, too, in the same
// question. One contender a name is right for a lock, which one caller at a
// time can have. Of a limit it would have a process get one slot in each round
// trip, however many are free.
//
// Each claim has an owner token of its own, which becomes that of the caller
// who gets the slot: the first of those asked for who waits still, as some may
// have left meanwhile. If none does, it is disowned: so a slot is never
// anybody's whose claim was not granted. All are made from the one place of the
// queue. If one is refused, that stands in line still, for the next at the
// front.

// other is one behind the front of a limit, for whom it asks.
type other struct {
	w     *desk.Waiter[*Lease]
	owner lease.Owner
}

// claimOthers adds to the front's own claim those for the next behind it: for
// one, to know whether there is more room, and for more and more as long as all
// are granted.
func (q *question) claimOthers(claims []store.Claim) []store.Claim {
	c := q.c
	behind := c.k.desk.Also(c.l.key(), c.l)
	c.others = make([]other, 0, len(behind))
	for _, w := range behind {
		if w.Limit() != c.limit {
			break // those of another number wait until they ask themselves
		}
		c.others = append(c.others, other{w, lease.NewOwner()})
	}
	for i := range c.others {
		o, l := &c.others[i], c.others[i].w.L
		claims = append(claims, store.Claim{
			Name: l.name, Owner: o.owner.String(), TTL: l.belief.TTL(&c.k.rules),
			Place: claims[0].Place, Holder: c.k.holder(l), Limit: c.limit,
		})
	}
	return claims
}

// give lets the leases of those begin for whom the front has asked, too. own is
// the answer to the front's own claim.
func (q *question) give(grants []store.Grant, own *store.Grant) {
	c, k, sent := q.c, q.c.k, q.sent
	granted, next := 0, 0
	var refusal store.Grant
	var orphans, unknown []other
	b := k.lock()
	for i, o := range c.others {
		switch g := asking.GrantOf(grants, 1+i, 1+len(c.others)); g.Status {
		case store.StatusHeld:
			granted++
			given := false
			for ; !given && next < len(c.others); next++ {
				given = b.give(c.others[next].w, o.owner, &g, sent)
			}
			if !given {
				orphans = append(orphans, o)
			}
		case store.StatusTaken, store.StatusQueued:
			refusal = g
		default:
			if !errors.Is(g.Err, store.ErrNotSent) {
				unknown = append(unknown, o)
			}
		}
	}
	full := own.Status == store.StatusHeld && refusal.Status != store.StatusUnknown
	all := own.Status == store.StatusHeld && granted == len(c.others)
	k.desk.Gave(c.l.key(), granted, all, full)
	c.others = nil
	b.Unlock()
	k.disownAll(orphans, 0)
	k.disownAll(unknown, sent)
	if full {
		c.tell(holderOf(&refusal, sent), refusal.Status == store.StatusQueued)
	}
}

// give lets the lease of one who waits begin, unless it has left, or the answer
// is too old.
func (b *books) give(
	w *desk.Waiter[*Lease], owner lease.Owner, g *store.Grant, sent instant,
) bool {
	k, l := b.k, w.L
	now := k.clock.AtMost()
	if k.rules.TooOld(sent, now, l.belief.TTL(&k.rules)) || b.phase != phaseRun ||
		!k.desk.Give(w) {
		return false
	}
	l.belief.Owner, l.belief.Fence = owner, g.Fence
	l.belief.Grant(&k.rules, sent, now, w.MaxHold)
	b.attendBy(l, now)
	l.belief.Due = b.heartbeats.First(sent)
	w.Tell()
	return true
}

// disownAll has freed what the store has given, or may give, to claims for
// others. unsettled is as for [cleanup.Cleaner.Disown].
func (k *Keeper) disownAll(others []other, unsettled instant) {
	for i := range others {
		l := others[i].w.L
		k.cleaner.Disown(l.orphan(l.keyOf(&others[i].owner)), unsettled)
	}
}

// takeOver reports whether the one before at the front has asked for this call,
// too, in vain: then it need not ask at once.
func (c *call) takeOver() bool {
	seen, place, asked := c.k.desk.TakeOver(c.l.key(), c.l)
	if asked {
		c.seen, c.behind, c.place, c.contended = seen, seen, place, true
	}
	return asked
}
