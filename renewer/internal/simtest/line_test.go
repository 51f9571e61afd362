package simtest_test

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockbeat/lockbeat/renewer/store"
)

// A store may keep a line for each name: a claim that is refused puts its place there, and a
// release gives the name to the first place that hears of it, for a turn in which to claim it. A
// place is no owner: whichever owner asks from it uses its turn up, once.

// place is a place in a line, as the server names it.
type place struct {
	inbox  int // of which link
	number uint64
}

// rank is a place with when it came, by the server's clock.
type rank struct {
	place
	since time.Duration
}

// turn is the time in which one place alone may claim a name. The server keeps it for three times
// as long, to see that it has lapsed.
type turn struct {
	place
	until, kept time.Duration // by the server's clock
}

// turnOf is the turn that a name is under; nil for none.
func (s *server) turnOf(name string, now time.Duration) *turn {
	t := s.turns[name]
	if t != nil && s.shown(now) >= t.kept {
		delete(s.turns, name)
		return nil
	}
	return t
}

// queue gives the place of a claim its rank, and returns it: when it came first.
func (s *server) queue(name string, r rank, now time.Duration) (since time.Duration) {
	line := s.lines[name]
	if i := slices.IndexFunc(line, func(o rank) bool { return o.place == r.place }); i >= 0 {
		return line[i].since
	}
	if r.since == 0 {
		r.since = s.clock.at(now)
		if n := len(line); n > 0 { // also if the clock was set back
			r.since = max(r.since, line[n-1].since+1)
		}
	}
	line = append(line, r)
	slices.SortStableFunc(line, func(a, b rank) int { return cmp.Compare(a.since, b.since) })
	s.lines[name] = line
	return r.since
}

// leave takes a place out of the line.
func (s *server) leave(name string, p place) {
	s.lines[name] = slices.DeleteFunc(s.lines[name], func(o rank) bool { return o.place == p })
}

// first takes the first place out of a line.
func (s *server) first(name string) (p place, ok bool) {
	line := s.lines[name]
	if len(line) == 0 {
		return place{}, false
	}
	s.lines[name] = line[1:]
	return line[0].place, true
}

// pass gives a name that is free to the first place that hears of it, or tells all who wait.
func (s *server) pass(name string, now time.Duration) {
	for p, ok := s.first(name); ok; p, ok = s.first(name) {
		if !s.tell(name, p, 0) {
			continue
		}
		until := s.shown(now) + s.turn
		s.turns[name] = &turn{place: p, until: until, kept: until + 2*s.turn}
		s.count(turnsInLine)
		if line := s.lines[name]; len(line) > 0 { // in case that the first one is dead
			s.tell(name, line[0].place, s.turn)
		}
		return
	}
	s.tellAll(name)
}

// wake has the first place that hears of it ask, which keeps its rank, and all without a place.
func (s *server) wake(name string) {
	for len(s.lines[name]) > 0 && !s.tell(name, s.lines[name][0].place, 0) {
		s.lines[name] = s.lines[name][1:]
	}
	s.tellAll(name)
}

// passOver has the next places ask after a turn that lapsed, as they may be as dead as that one.
func (s *server) passOver(name string) {
	s.count(turnsLapsed)
	for range 32 {
		p, ok := s.first(name)
		if !ok {
			return
		}
		s.tell(name, p, 0)
	}
}

// claim answers a claim for a name that no owner has.
func (s *server) claim(r *request, c *store.Claim, from rank, now time.Duration) store.Grant {
	switch t := s.turnOf(c.Name, now); {
	case t == nil:
		s.leave(c.Name, from.place)
	case from.number != 0 && t.place == from.place:
		delete(s.turns, c.Name)
	case s.shown(now) >= t.until && !s.faults.turnForTheDead:
		delete(s.turns, c.Name)
		s.leave(c.Name, from.place)
		g := s.grant(r, c, from.place, now)
		s.keys[c.Name].waited = true
		s.passOver(c.Name)
		return g
	default:
		return s.refuse(c, from, store.Grant{TTL: t.until - s.shown(now)}, now)
	}
	return s.grant(r, c, from.place, now)
}

// refuse answers a claim for a name that another has.
func (s *server) refuse(
	c *store.Claim, from rank, g store.Grant, now time.Duration,
) store.Grant {
	g.Status = store.StatusTaken
	if t := s.keys[c.Name]; t != nil {
		t.waited = true
	}
	if from.number != 0 {
		g.Status = store.StatusQueued
		s.came[from.place] = s.queue(c.Name, from, now)
	}
	return g
}

// inspectLines shows all places that stand in line.
func (s *server) inspectLines(each func(string, place)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, line := range s.lines {
		for _, r := range line {
			each(name, r.place)
		}
	}
}

// giveUp takes back a place, and its turn if it has that.
func (s *server) giveUp(name string, p place, now time.Duration) {
	s.leave(name, p)
	if t := s.turnOf(name, now); t != nil && t.place == p {
		delete(s.turns, name)
		s.pass(name, now)
	}
}
