package simtest_test

import (
	"slices"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

// A store may keep a line for each name: who is refused gets a place in it,
// and a release gives the name to the first, for a turn in which to claim it.

// place is one in a line.
type place struct {
	owner   string
	process int
}

// queue gives the owner of a claim a place, unless it has one.
func (s *server) queue(r *request, c *renewer.Claim) bool {
	if s.turn == 0 {
		return false
	}
	p := place{c.Owner, r.process}
	if !slices.Contains(s.lines[c.Name], p) {
		s.lines[c.Name] = append(s.lines[c.Name], p)
	}
	return true
}

// leave takes an owner out of the line.
func (s *server) leave(name, owner string) {
	s.lines[name] = slices.DeleteFunc(s.lines[name], func(p place) bool { return p.owner == owner })
}

// pass gives a name that was just freed to the first in line.
func (s *server) pass(name string, now time.Duration) {
	if len(s.lines[name]) == 0 {
		return
	}
	first := s.lines[name][0]
	s.lines[name] = s.lines[name][1:]
	t := &tenure{
		name: name, owner: first.owner, process: first.process, from: now,
		until: s.shown(now) + s.turn, turn: true,
	}
	s.begin(t, 0)
	s.count(turnsInLine)
}
