package simtest_test

import (
	"fmt"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

func (s *server) acquire(r *request, c *renewer.Claim, now time.Duration) renewer.Grant {
	if c.TTL < time.Millisecond || c.TTL%time.Millisecond != 0 ||
		len(c.Owner) != renewer.OwnerLen || c.Reserve < 0 {
		s.report(contract, "the claim %+v", *c)
	}
	t := s.live(c.Name, now)
	switch {
	case t == nil:
		s.leave(c.Name, c.Owner)
		return s.grant(r, c, now)
	case t.owner != c.Owner || s.faults.refusesItsOwner && !t.turn:
		return renewer.Grant{
			Status: renewer.StatusTaken, Holder: renewer.Holder{Node: fmt.Sprint(t.process)},
			TTL:    t.until - s.shown(now),
			Queued: c.Queue && s.queue(r, c),
		}
	case s.faults.grantsAnew && !t.turn:
		t.end(now, true)
		return s.grant(r, c, now)
	}
	reserved := 0
	if t.turn { // now it has come
		t.turn, t.ttl, reserved = false, c.TTL, s.further(t.low, c.Reserve, now)
		t.high += int64(reserved)
		s.noteCopy(t, r)
		s.reserve(t)
	}
	t.until = max(t.until, s.shown(now)+c.TTL)
	return renewer.Grant{Status: renewer.StatusHeld, Fence: t.low, Reserved: reserved}
}

// grant begins a tenure.
func (s *server) grant(r *request, c *renewer.Claim, now time.Duration) renewer.Grant {
	t := &tenure{
		name: c.Name, owner: c.Owner, process: r.process, ttl: c.TTL, from: now,
		until: s.shown(now) + c.TTL,
	}
	s.begin(t, c.Reserve)
	s.noteCopy(t, r)
	return renewer.Grant{Status: renewer.StatusHeld, Fence: t.low, Reserved: int(t.high - t.low)}
}

// begin gives a tenure its tokens: above all before them, and by the clock.
func (s *server) begin(t *tenure, reserve int) {
	s.count(granted)
	t.low = max(s.fences[t.name]+1, s.micros(t.from))
	if s.faults.forgetsReserved {
		t.low = s.fences[t.name] + 1
	}
	t.high = t.low + int64(s.further(t.low, reserve, t.from))
	s.reserve(t)
	s.keys[t.name] = t
	s.book[t.name] = append(s.book[t.name], t)
}

// micros is the clock in whole microseconds, which tokens follow.
func (s *server) micros(now time.Duration) int64 {
	return int64(s.clock.at(now) / time.Microsecond)
}

// further is how many tokens above low are reserved: so that none is
// further ahead of the clock than one claim wants.
func (s *server) further(low int64, reserve int, now time.Duration) int {
	return max(0, min(reserve, int(s.micros(now)-low)+reserve))
}

// giveBack takes back tokens that were not used.
func (s *server) giveBack(t *tenure, h *renewer.Hold) {
	if used := max(h.Used, t.low); h.Used != 0 && used < t.high && !s.faults.forgetsReserved {
		s.fences[t.name], t.high = used, used
	}
}

// reserve raises the counter to what is reserved.
func (s *server) reserve(t *tenure) {
	s.fences[t.name] = t.high
	if s.faults.forgetsReserved {
		s.fences[t.name] = t.low
	}
}

// noteCopy notes that a tenure was granted to a copy of a request, if it was.
func (s *server) noteCopy(t *tenure, r *request) {
	if r.done {
		s.count(copyActed)
		t.copied = r
	}
}
