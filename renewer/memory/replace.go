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
