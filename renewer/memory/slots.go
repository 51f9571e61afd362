package memory

import (
	"fmt"
	"time"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// slots are those of one limit, by owner. They may be held, or lapsed and not
// removed yet.
type slots struct {
	leases map[string]lease
	first  time.Time // none lapses before
}

// claimSlot is claim for a limit.
func (s *engine) claimSlot(c *store.Claim, now time.Time) store.Grant {
	if _, err := store.Millis(c.TTL); err != nil {
		return store.Grant{Err: err}
	}
	if c.Limit < 1 {
		return store.Grant{Err: fmt.Errorf("%w: %w: Claim.Limit: is %d, less than 1",
			store.ErrConfig, store.ErrRejected, c.Limit)}
	}
	all := s.slotsOf(c.Name, now)
	until := now.Add(c.TTL)
	l, ok := all.leases[c.Owner]
	switch {
	case ok && s.brokenBy(contract.Claimed(c), c.Owner, now) == nil:
		if until.After(l.until) {
			l.until = until
		}
	case ok, len(all.leases) >= c.Limit:
		next := all.next()
		return store.Grant{
			Status: store.StatusTaken, Holder: next.holder, HeldFor: now.Sub(next.since),
			TTL: next.until.Sub(now), Held: len(all.leases), Broken: ok,
		}
	default:
		fence := max(now.UnixMicro(), s.tokens.counter(c.Name)+1)
		s.tokens.floor = fence
		l = lease{
			owner: c.Owner, holder: c.Holder, fence: fence, since: now, until: until,
			callers: c.Callers,
		}
	}
	if len(all.leases) == 0 || l.until.Before(all.first) {
		all.first = l.until
	}
	all.leases[c.Owner] = l
	return store.Grant{Status: store.StatusHeld, Fence: l.fence}
}

// slotsOf are those of a limit, without the lapsed ones. With none left the
// limit is forgotten by the next sweep, or by the release of the last.
func (s *engine) slotsOf(name string, now time.Time) *slots {
	all := s.limits[name]
	if all == nil {
		all = &slots{leases: make(map[string]lease)}
		if s.limits == nil {
			s.limits = make(map[string]*slots)
		}
		sweep(s.limits, &s.limitsAt, func(_ string, all *slots) bool {
			all.purge(now)
			return len(all.leases) == 0
		})
		s.limits[name] = all
	}
	if !now.Before(all.first) {
		all.purge(now)
	}
	return all
}

// purge removes the lapsed.
func (a *slots) purge(now time.Time) {
	for owner, l := range a.leases {
		if !now.Before(l.until) {
			delete(a.leases, owner)
		}
	}
	a.first = a.next().until
}

// next is the one that lapses first.
func (a *slots) next() (next lease) {
	for _, l := range a.leases {
		if next.until.IsZero() || l.until.Before(next.until) {
			next = l
		}
	}
	return next
}

// lookUp returns the lease of an owner on a name, or whose it is if it is
// another's; neither if it is free.
func (s *engine) lookUp(h *store.Hold, now time.Time) (l lease, mine, taken bool) {
	if !h.Limit {
		l, ok := s.live(h.Name, now)
		return l, ok && l.owner == h.Owner, ok
	}
	if s.limits[h.Name] == nil {
		return l, false, false
	}
	l, ok := s.slotsOf(h.Name, now).leases[h.Owner]
	return l, ok, ok
}

// keep stores a lease whose end has changed.
func (s *engine) keep(name contract.Name, l lease) {
	if !name.Limit {
		s.held[name.Text] = l
		return
	}
	all := s.limits[name.Text]
	all.leases[l.owner] = l
	if l.until.Before(all.first) {
		all.first = l.until
	}
}

// free removes a lease.
func (s *engine) free(name contract.Name, l lease) {
	if !name.Limit {
		delete(s.held, name.Text)
		return
	}
	all := s.limits[name.Text]
	delete(all.leases, l.owner)
	if len(all.leases) == 0 {
		delete(s.limits, name.Text)
	}
}
