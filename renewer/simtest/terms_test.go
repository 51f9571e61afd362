package simtest_test

import (
	"context"
	"errors"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

// Some callers want a lock only if its record is still the one that they know, and write the next
// one with the grant. The records outlive what the server loses, as if they lay elsewhere: so each
// of them is followed once, in any weather.

// wrote is who wrote a record, and its number.
type wrote struct{ Fence, Seq int64 }

func (by wrote) seen() *renewer.Seen {
	return &renewer.Seen{Status: renewer.StatusHeld, Fence: by.Fence, Seq: by.Seq}
}

// acquireIf answers a claim that has a term.
func (s *server) acquireIf(
	r *request, c *renewer.Claim, from rank, now time.Duration,
) renewer.Grant {
	last := s.records[c.Name]
	t := s.live(c.Name, now)
	// By its writer, since a server that has lost data may grant a token again.
	own := t != nil && t.owner == c.Owner && s.writers[c.Name] == c.Owner
	if last != wrote(c.Term.After) && !own && !s.faults.anyRecord {
		return renewer.Grant{Status: renewer.StatusChanged, Seen: last.seen()}
	}
	g := s.acquire(r, c, from, now)
	switch {
	case g.Status != renewer.StatusHeld:
	case own:
		g.Seen = last.seen()
	case g.Fence > last.Fence: // otherwise tokens have fallen with lost data
		s.records[c.Name], s.writers[c.Name] = wrote{g.Fence, 1}, c.Owner
		g.Seen = s.records[c.Name].seen()
	}
	return g
}

var (
	_ renewer.Recorder = (*link)(nil)

	errNotAsked = errors.New("no caller asks this")
)

// Prepare is not for the callers of a world.
func (l *link) Prepare(context.Context, []renewer.Term) []renewer.Seen {
	return []renewer.Seen{{Err: errNotAsked}}
}

// Read is not for the callers of a world.
func (l *link) Read(context.Context, []string) []renewer.Seen {
	return []renewer.Seen{{Err: errNotAsked}}
}

// Write is not for the callers of a world.
func (l *link) Write(context.Context, []renewer.Record) []renewer.Answer {
	return []renewer.Answer{{Err: errNotAsked}}
}

// follow acquires on the condition that the record is the one that the caller knows.
func (c *caller) follow(
	ctx context.Context, name string, opts []renewer.Option,
	acquire func(context.Context, string, ...renewer.Option) (*renewer.Lease, error),
) (*renewer.Lease, error) {
	term := renewer.Term{TTL: time.Hour, Data: "x", After: c.known[name]}
	var seen renewer.Seen
	l, err := acquire(ctx, name, append(opts, renewer.BeginTerm(term, &seen))...)
	by := wrote{seen.Fence, seen.Seq}
	switch {
	case errors.Is(err, renewer.ErrRecordChanged):
		c.w.tally.count(recordChanged)
		if by == wrote(term.After) {
			c.w.ledger.violate(contract, "the record of %q has not changed from %v", name, by)
		}
		c.known[name] = by
	case err == nil && seen.Status == renewer.StatusHeld: // it was not handed over
		if by != (wrote{l.Fence(), 1}) {
			c.w.ledger.violate(contract, "token %d begins with the record %v", l.Fence(), by)
		}
		c.w.ledger.follow(name, wrote(term.After), l.Fence())
		c.known[name] = by
	}
	return l, err
}

// follow notes by which token a record was followed.
func (g *ledger) follow(name string, after wrote, fence int64) {
	g.mu.Lock()
	record := followed{name, after}
	before, twice := g.followers[record]
	if g.followers == nil {
		g.followers = make(map[followed]int64)
	}
	g.followers[record] = fence
	g.mu.Unlock()
	if twice {
		g.violate(twoFollow, "the record %v of %q, by tokens %d and %d", after, name, before, fence)
	}
}

// followed is a record that a holder has followed.
type followed struct {
	name string
	by   wrote
}
