package script

import (
	"fmt"
	"time"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// table is the store in memory behind the script: who has which name, and each
// name's last fencing token. Nothing is ever removed from it, which is fit for
// a test.
type table map[string]*row

type row struct {
	owner  string // "" if it is free
	holder store.Holder
	since  time.Time
	until  time.Time
	fence  int64
	spare  int64 // how many more tokens are the owner's
}

// row returns the row of name, with a lapsed lease cleared.
func (t table) row(name string, now time.Time) *row {
	r := t[name]
	if r == nil {
		r = new(row)
		t[name] = r
	}
	if !now.Before(r.until) {
		r.owner = ""
	}
	return r
}

// apply answers item i of call as a says, and makes the table agree with it.
// freed reports that the name is free: by its owner's release, or since it was
// found gone.
func (t table) apply(call Call, i int, a answer, now time.Time) (g store.Grant, freed bool) {
	if call.Op == Acquire {
		p := contract.Proposal{Claim: call.Claims[i]}
		if call.Proposals != nil {
			p = call.Proposals[i]
		}
		g = t.acquire(p, a, t.row(p.Name, now), now)
	} else {
		h := call.Holds[i]
		r := t.row(h.Name, now)
		g = a.grant
		if !a.fixed {
			g.Status = r.status(h.Owner)
			if g.Status == store.StatusTaken {
				g.Holder = r.holder
			}
		}
		released := call.Op == Release && g.Status == store.StatusHeld
		r.believe(h, g, released, now)
		freed = released || g.Status == store.StatusGone
	}
	return a.unlessLost(g), freed
}

// unlessLost is what the caller hears of an answer.
func (a answer) unlessLost(g store.Grant) store.Grant {
	if a.lose != nil {
		return store.Grant{Err: a.lose}
	}
	return g
}

var errLimit = fmt.Errorf("%w: %w: the scripted store has no limits; package memory does",
	store.ErrConfig, store.ErrRejected)

// acquire answers a claim by a, and makes r agree.
func (t table) acquire(c contract.Proposal, a answer, r *row, now time.Time) store.Grant {
	g := a.grant
	if !a.fixed && c.Limit != 0 {
		return store.Grant{Err: errLimit}
	}
	if !a.fixed {
		g.Status = store.StatusHeld
		if r.owner != "" && r.owner != c.Owner {
			return store.Grant{
				Status: store.StatusTaken, Holder: r.holder, HeldFor: now.Sub(r.since),
				TTL: r.until.Sub(now),
			}
		}
	}
	switch g.Status {
	case store.StatusHeld:
		if top := r.fence + r.spare; !a.fixed && c.Fence != 0 && c.Fence <= top &&
			(r.owner != c.Owner || r.fence != c.Fence) {
			return store.Grant{Status: store.StatusBehind, Fence: top}
		}
		if r.owner != c.Owner || c.Fence > r.fence {
			if c.Fence == 0 && c.Place != 0 {
				c.Reserve = store.MaxReserved
			}
			until := r.until
			if r.owner != c.Owner {
				until = now
			}
			*r = row{
				owner: c.Owner, holder: c.Holder, since: now, until: until,
				fence: r.fence + r.spare + 1, spare: int64(c.Reserve),
			}
			g.Reserved = c.Reserve
		}
		if g.Fence == 0 {
			g.Fence = c.Fence
		}
		if g.Fence != 0 {
			r.fence = g.Fence
		}
		g.Fence = r.fence
		r.extend(now.Add(c.TTL))
	case store.StatusTaken, store.StatusQueued:
		if c.Place == 0 {
			g.Status = store.StatusTaken
		}
		if r.owner == "" || r.owner == c.Owner {
			r.give(g, now)
		}
	case store.StatusUnknown, store.StatusGone, store.StatusBehind, store.StatusBroken: // no effect
	}
	return g
}

// status is what the owner of a hold hears.
func (r *row) status(owner string) store.Status {
	switch r.owner {
	case "":
		return store.StatusGone
	case owner:
		return store.StatusHeld
	default:
		return store.StatusTaken
	}
}

// believe makes r agree with the answer to a hold.
func (r *row) believe(h store.Hold, g store.Grant, freed bool, now time.Time) {
	switch g.Status {
	case store.StatusHeld:
		if freed {
			if h.Keep > 0 {
				r.until = now.Add(h.Keep)
			} else {
				r.owner = ""
			}
			return
		}
		if r.owner != h.Owner {
			*r = row{owner: h.Owner, since: now, fence: r.fence + r.spare}
		}
		r.extend(now.Add(h.TTL))
	case store.StatusTaken:
		if r.owner == h.Owner {
			r.give(g, now)
		}
	case store.StatusGone:
		r.owner = ""
	case store.StatusUnknown, store.StatusBroken: // no effect
	}
}

func (r *row) extend(until time.Time) {
	if until.After(r.until) {
		r.until = until
	}
}

// stranger is the owner token of a holder that a step makes up.
const stranger = "stranger"

// give hands r to the stranger of a Taken answer. With an unknown TTL it is
// free again at the next call.
func (r *row) give(g store.Grant, now time.Time) {
	*r = row{
		owner: stranger, holder: g.Holder, since: now.Add(-g.HeldFor), until: now.Add(g.TTL),
		fence: r.fence + r.spare + 1,
	}
}

// Delete makes name free and wakes no watch, as if an outsider had removed its
// key.
func (s *Store) Delete(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.table.row(name, time.Now()).owner = ""
}

// Overwrite gives name to holder for ttl and wakes no watch, as if an outsider
// had written its key.
func (s *Store) Overwrite(name string, holder store.Holder, ttl time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.table.row(name, now).give(store.Grant{Holder: holder, TTL: ttl}, now)
}

// Owner returns the owner token that has name in the store in memory; "" if the
// name is free.
func (s *Store) Owner(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table.row(name, time.Now()).owner
}
