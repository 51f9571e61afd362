package simtest_test

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockbeat/lockbeat/renewer/store"
)

// A store may keep a line for each name: a claim that is refused puts its place
// there, and a release grants the name to the first place that hears of it, as
// it was first claimed from there. The message of that may be late, lost,
// repeated, or overtaken by another one.

// place is a place in a line, as the server names it.
type place struct {
	inbox  int // of which link
	number uint64
}

// rank is a place with when it came, by the server's clock, and the first claim
// from it.
type rank struct {
	place
	since  time.Duration
	first  store.Claim
	at     time.Duration // when it came to the line
	copied *request      // that has put it there, after one of which the caller had a reply; or nil
}

// turn is the time in which one place alone may claim a slot.
type turn struct {
	place
	until time.Duration // by the server's clock
}

// message is what the inbox of a place is told of a name: to ask, or what its
// first claim was granted.
type message struct {
	name    string
	number  uint64
	granted *store.Grant
}

// queue gives the place of a claim its rank, and returns it: when it came
// first.
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
	r.at = now
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
func (s *server) first(name string) (r rank, ok bool) {
	line := s.lines[name]
	if len(line) == 0 {
		return rank{}, false
	}
	s.lines[name] = line[1:]
	return line[0], true
}

// pass grants a name that is free to the first place that hears of it, or tells
// all who wait. The process that has released it looks when the grant may have
// lapsed.
func (s *server) pass(r *request, name string, now time.Duration) {
	for first, ok := s.first(name); ok; first, ok = s.first(name) {
		if !s.hears(first.place) {
			continue
		}
		g := s.grant(&request{process: s.processOf(first.place)}, &first.first, first.place, now)
		g.Late = true
		t := s.keys[name]
		t.carried, t.waited, t.claimed, t.copied = true, true, first.at, first.copied
		s.tell(first.place, message{name, first.number, &g})
		s.count(turnsInLine)
		s.later(place{inbox: r.inbox}, first.first.TTL+5*time.Millisecond, func(now time.Duration) {
			s.look(name, now)
		})
		return
	}
	s.tellAll(name)
}

// look has the next places ask after a grant that lapsed, as they may be as
// dead as that one.
func (s *server) look(name string, now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live(name, now) == nil && !s.passOver(name) {
		s.tellAll(name)
	}
}

// passOver has the next places ask, and reports whether one hears that.
func (s *server) passOver(name string) (heard bool) {
	for range 100 {
		r, ok := s.first(name)
		if !ok {
			break
		}
		heard = s.ask(name, r.place) || heard
	}
	return heard
}

// ask tells a place to ask, and reports whether it hears that.
func (s *server) ask(name string, p place) bool {
	heard := s.hears(p)
	if heard {
		s.tell(p, message{name: name, number: p.number})
	}
	return heard
}

// wake has the first place that hears of it ask, which keeps its rank, and all
// without a place.
func (s *server) wake(name string) {
	for len(s.lines[name]) > 0 && !s.ask(name, s.lines[name][0].place) {
		s.lines[name] = s.lines[name][1:]
	}
	s.tellAll(name)
}

// claim answers a claim for a name that no owner has.
func (s *server) claim(r *request, c *store.Claim, from rank, now time.Duration) store.Grant {
	line := s.lines[c.Name]
	before := len(line) > 0 && line[0].since < from.since
	s.leave(c.Name, from.place)
	g := s.grant(r, c, from.place, now)
	if before { // a lease has lapsed, and who stands before it may be dead
		s.passOver(c.Name)
	}
	return g
}

// refuse answers a claim for a name that another has.
func (s *server) refuse(
	r *request, c *store.Claim, from rank, g store.Grant, now time.Duration,
) store.Grant {
	g.Status = store.StatusTaken
	if r.done {
		from.copied = r
	}
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
