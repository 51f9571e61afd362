package memory

import (
	"context"
	"slices"
	"time"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/store"
)

var _ contract.Replacer = (*engine)(nil)

// newest is the newest call that waits for a name.
type newest struct {
	order

	owner string
	by    process
	until time.Time
}

// Replace notes the newest call that waits for a name, and calls the functions
// given to OnBreak before it returns: see [contract.Replacer]. The error is
// that of ctx.
func (s *engine) Replace(ctx context.Context, r contract.Replacement) (since int64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	var look []*listener[contract.Name]
	name := contract.Name{Text: r.Name}
	s.mu.Lock()
	now := time.Now()
	before, since := s.noteNewest(&r, now)
	if before != (process{}) {
		look = slices.Clone(s.lookers.of[before])
	}
	if since != 0 && r.Break {
		l, ok := s.live(r.Name, now)
		if ok && l.owner != r.Owner && s.brokenBy(name, l.owner, now) == nil {
			b := &store.Breaking{
				Name: r.Name, Broken: store.Broken{By: printable(r.By.String()), Replaced: true},
			}
			s.breakLease(b, l, now)
			look = append(look, s.lookers.of[process{l.holder.Node, l.holder.PID}]...)
		}
	}
	s.mu.Unlock()
	for _, l := range look {
		l.call(name)
	}
	return since, nil
}

// noteNewest notes a call, with s.mu held. before is the process of another one
// that was noted.
func (s *engine) noteNewest(r *contract.Replacement, now time.Time) (before process, since int64) {
	noted, ok := s.newest[r.Name]
	ok = ok && now.Before(noted.until)
	call := orderOf(r.Newness, now)
	switch {
	case r.Over:
		if ok && noted.owner == r.Owner {
			delete(s.newest, r.Name)
		}
		return before, 0
	case ok && noted.owner == r.Owner:
		call.since = noted.since
	case ok:
		if r.Newness.Since == 0 && (call.since == noted.since || noted.since > now.UnixMicro()) {
			call.since = noted.since + 1 // two in one us, or a clock that was set back
		}
		if call.older(noted.order) {
			return before, 0
		}
		before = noted.by
	}
	if s.late(r.Name, r.Owner, store.Newness{Rank: call.rank, Since: call.since}, now) {
		return process{}, 0
	}
	if s.newest == nil {
		s.newest = make(map[string]newest)
	}
	sweep(s.newest, &s.newestAt, func(_ string, n newest) bool { return !now.Before(n.until) })
	s.newest[r.Name] = newest{
		order: call, owner: r.Owner, by: process{r.By.Node, r.By.PID},
		until: now.Add(contract.NoteTTL),
	}
	return before, call.since
}

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
