package simtest_test

import (
	"fmt"
	"time"

	"github.com/lockbeat/lockbeat/renewer/store"
)

func (s *server) acquire(
	r *request, c *store.Claim, from rank, now time.Duration,
) store.Grant {
	if c.TTL < time.Millisecond || c.TTL%time.Millisecond != 0 ||
		len(c.Owner) != store.OwnerLen {
		s.report(contract, "the claim %+v", *c)
	}
	if c.Limit != 0 {
		return s.acquireSlot(r, c, from, now)
	}
	t := s.live(c.Name, now)
	switch {
	case t == nil:
		return s.claim(r, c, from, now)
	case t.owner != c.Owner || s.faults.refusesItsOwner:
		return s.refuse(r, c, from, store.Grant{
			Holder: store.Holder{Node: fmt.Sprint(t.process)}, TTL: t.until - s.shown(now),
		}, now)
	case s.faults.grantsAnew:
		t.end(now, true)
		return s.grant(r, c, from.place, now)
	}
	t.ttl = c.TTL // another caller of its process may have the place
	t.until, t.carried = max(t.until, s.shown(now)+c.TTL), false
	return store.Grant{Status: store.StatusHeld, Fence: t.low}
}

// grant begins a tenure, whose tokens are above all before them, and by the
// clock.
func (s *server) grant(
	r *request, c *store.Claim, from place, now time.Duration,
) store.Grant {
	t := &tenure{
		name: c.Name, owner: c.Owner, process: r.process, place: from, ttl: c.TTL, claimed: now, from: now,
		until: s.shown(now) + c.TTL, era: s.era, waited: from.number != 0,
	}
	s.count(granted)
	t.low, t.high = s.tokens.pick(t, c.Place != 0, s.micros(now))
	s.keys[t.name] = t
	s.book[t.name] = append(s.book[t.name], t)
	s.noteCopy(t, r)
	return store.Grant{Status: store.StatusHeld, Fence: t.low, Reserved: int(t.high - t.low)}
}

// micros is the clock in whole microseconds, which tokens follow.
func (s *server) micros(now time.Duration) int64 {
	return int64(s.clock.at(now) / time.Microsecond)
}

// noteCopy notes that a tenure was granted to a copy of a request, if it was.
func (s *server) noteCopy(t *tenure, r *request) {
	if r.done {
		s.count(copyActed)
		t.copied = r
	}
}
