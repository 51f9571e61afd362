package memory

import (
	"time"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// order is how new a call is: see [store.Newness].
type order struct {
	rank  int64
	since int64 // us
}

func orderOf(n store.Newness, now time.Time) order {
	if n.Since == 0 {
		n.Since = now.UnixMicro() - n.Age.Microseconds()
	}
	return order{n.Rank, n.Since}
}

// older reports whether a call is older than another.
func (o order) older(than order) bool {
	if o.rank != than.rank && o.rank != 0 && than.rank != 0 {
		return o.rank < than.rank
	}
	return o.since < than.since
}

// begun is the newest call that has had a name: the greatest rank, and the
// latest.
type begun struct {
	order

	until time.Time
}

// lastBegun is the newest call that has had a name. One in the future is of a
// clock that was set back since: calls are not refused until then. With s.mu
// held.
func (s *engine) lastBegun(name string, now time.Time) begun {
	last := s.begun[name]
	if !now.Before(last.until) {
		return begun{}
	}
	if last.since > now.UnixMicro() {
		last.since = 0
	}
	return last
}

// late reports whether a call that gives way to newer ones is older than one
// that has had the name, and does not have it. One of the same rank is the same
// work again. With s.mu held.
func (s *engine) late(name, owner string, n store.Newness, now time.Time) bool {
	if n == (store.Newness{}) {
		return false
	}
	if l, ok := s.live(name, now); ok && l.owner == owner {
		return false // it asks again, or its answer was lost
	}
	call, last := orderOf(n, now), s.lastBegun(name, now)
	return (call.rank == 0 || call.rank != last.rank) && call.older(last.order)
}

// noteBegun notes a call that is given the name, if it gives way to newer ones.
// With s.mu held.
func (s *engine) noteBegun(name string, n store.Newness, now time.Time) {
	if n == (store.Newness{}) {
		return
	}
	if s.begun == nil {
		s.begun = make(map[string]begun)
	}
	sweep(s.begun, &s.begunAt, func(_ string, b begun) bool { return !now.Before(b.until) })
	last := s.lastBegun(name, now)
	b := begun{order: orderOf(n, now), until: now.Add(contract.NoteTTL)}
	b.since = max(b.since, last.since)
	if b.rank != 0 {
		b.until = now.Add(contract.RankTTL)
	} else if last.rank != 0 {
		b.rank, b.until = last.rank, later(b.until, last.until)
	}
	s.begun[name] = b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
