package simtest_test

import (
	"slices"
	"time"

	"github.com/lockbeat/lockbeat/renewer/store"
)

// In a world of limits each name is one, of plan.limit slots. The server has
// those who hold a name, and the places whose turn it is: together they are
// never more than a claim's own number when that is granted. Each slot that is
// free goes to the first place in line that hears of it.

// liveSlots are those who hold a limit. What has lapsed goes to the first in
// line.
func (s *server) liveSlots(name string, now time.Duration) []*tenure {
	lapsed := 0
	s.slots[name] = slices.DeleteFunc(s.slots[name], func(t *tenure) bool {
		if s.shown(now) < t.until {
			return false
		}
		t.end(s.clock.when(t.until), false)
		s.count(leftToLapse)
		lapsed++
		return true
	})
	s.slotTurns[name] = slices.DeleteFunc(s.slotTurns[name], func(t turn) bool {
		if s.shown(now) < t.until {
			return false
		}
		s.count(turnsLapsed)
		lapsed++
		return true
	})
	for range lapsed {
		s.passSlot(name, now)
	}
	return s.slots[name]
}

// passSlot keeps a slot that is free for the first place that hears of it, or
// tells all who wait.
func (s *server) passSlot(name string, now time.Duration) bool {
	for r, ok := s.first(name); ok; r, ok = s.first(name) {
		if s.ask(name, r.place) {
			s.slotTurns[name] = append(s.slotTurns[name],
				turn{place: r.place, until: s.shown(now) + s.turn})
			s.count(turnsInLine)
			return true
		}
	}
	s.tellAll(name)
	return false
}

// useTurn takes the turn of a place, and reports whether it had one.
func (s *server) useTurn(name string, p place) bool {
	n := len(s.slotTurns[name])
	if p.number != 0 {
		s.slotTurns[name] = slices.DeleteFunc(s.slotTurns[name], func(t turn) bool {
			return t.place == p
		})
	}
	return len(s.slotTurns[name]) < n
}

func (s *server) acquireSlot(r *request, c *store.Claim, from rank, now time.Duration) store.Grant {
	if c.Limit < 1 {
		s.report(contract, "the claim %+v of a limit", *c)
	}
	all := s.liveSlots(c.Name, now)
	had := s.useTurn(c.Name, from.place)
	if s.turn == 0 {
		from.number = 0 // there are no lines
	}
	i := slices.IndexFunc(all, func(t *tenure) bool { return t.owner == c.Owner })
	if i >= 0 && !s.faults.slotTwice {
		if had {
			s.passSlot(c.Name, now)
		}
		all[i].until = max(all[i].until, s.shown(now)+c.TTL)
		return store.Grant{Status: store.StatusHeld, Fence: all[i].low}
	}
	room := c.Limit - len(all) - len(s.slotTurns[c.Name])
	if s.faults.oneMore {
		room++
	}
	if room <= 0 {
		g := store.Grant{
			Status: store.StatusTaken, TTL: c.TTL, Held: len(all) + len(s.slotTurns[c.Name]),
		}
		for _, t := range all {
			g.TTL = min(g.TTL, t.until-s.shown(now))
		}
		if from.number != 0 {
			g.Status = store.StatusQueued
			s.came[from.place] = s.queue(c.Name, from, now)
		}
		return g
	}
	s.leave(c.Name, from.place)
	t := &tenure{
		name: c.Name, owner: c.Owner, process: r.process, place: from.place, ttl: c.TTL,
		claimed: now, from: now,
		until: s.shown(now) + c.TTL, era: s.era,
	}
	s.count(granted)
	t.low, t.high = s.tokens.pick(t, false, s.micros(now))
	s.slots[c.Name] = append(s.slots[c.Name], t)
	s.book[t.name] = append(s.book[t.name], t)
	s.noteCopy(t, r)
	for room > 1 && len(s.lines[c.Name]) > 0 && s.passSlot(c.Name, now) {
		room--
	}
	return store.Grant{Status: store.StatusHeld, Fence: t.low}
}

func (s *server) holdSlot(r *request, h *store.Hold, now time.Duration) store.Answer {
	if h.Place != 0 && !r.renew {
		p := place{r.inbox, h.Place}
		s.leave(h.Name, p)
		if s.useTurn(h.Name, p) {
			s.passSlot(h.Name, now)
		}
	}
	all := s.liveSlots(h.Name, now)
	i := slices.IndexFunc(all, func(t *tenure) bool { return t.owner == h.Owner })
	if s.faults.freesAnybodys && !r.renew && i < 0 && len(all) > 0 {
		i = 0
	}
	if i < 0 {
		s.tellAll(h.Name)
		return store.Answer{Status: store.StatusGone}
	}
	switch t := all[i]; {
	case r.renew:
		s.renew(t, h, now)
	case h.Keep > 0:
		t.until, t.kept = s.shown(now)+h.Keep, true
		s.wake(h.Name)
	default:
		t.end(now, true)
		s.slots[h.Name] = slices.Delete(all, i, i+1)
		s.passSlot(h.Name, now)
	}
	return store.Answer{Status: store.StatusHeld}
}

// atMost looks whether more than so many believe in a limit at once. Under
// s.mu.
func (g *ledger) atMost(s *server, all []*belief, limit int) {
	seen := make(map[int64]bool)
	for _, b := range all {
		if seen[b.fence] {
			g.violate(tokens, "%v: another slot has its token", b)
		}
		seen[b.fence] = true
		n := 0
		for _, other := range all {
			if other.from <= b.from && (!other.over || other.to > b.from) {
				n++
			}
		}
		if n > limit {
			g.violate(twoBelieve, "%v: with it %d believe in a limit of %d", b, n, limit)
			return
		}
	}
}
