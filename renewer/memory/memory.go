package memory

import (
	"context"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

// Store holds names for owners in this process. The zero value is ready to use. It must not be
// copied after its first use. Its methods may be called concurrently.
type Store struct {
	mu       sync.Mutex // guards what follows
	held     map[string]lease
	sweepAt  int   // size of held at which lapsed leases are removed
	fence    int64 // the last one picked or used, whatever its name
	proposed proposals
	records  records
	watchers map[string][]*watcher
}

var _ renewer.Store = (*Store)(nil)

// lease is a name held, or lapsed and not removed yet.
type lease struct {
	owner  string
	holder renewer.Holder
	fence  int64
	top    int64 // the highest token that is the owner's: reserved ones are above fence
	since  time.Time
	until  time.Time
}

// New returns an empty store.
func New() *Store { return new(Store) }

// Acquire tries each claim once: see [renewer.Store]. A claim that repeats its owner's renews as
// Renew does, so it never shortens the TTL. A TTL below 1 ms is answered with [renewer.ErrConfig].
func (s *Store) Acquire(ctx context.Context, claims []renewer.Claim) []renewer.Grant {
	grants := make([]renewer.Grant, len(claims))
	if err := ctx.Err(); err != nil {
		for i := range grants {
			grants[i].Err = err
		}
		return grants
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now() // under the lock, so that no later caller sees an earlier time
	for i := range claims {
		if claims[i].Term == nil {
			grants[i] = s.claim(&claims[i], now)
		} else {
			grants[i] = s.claimTerm(&claims[i], now)
		}
	}
	return grants
}

// claim is Acquire for one claim, with s.mu held.
func (s *Store) claim(c *renewer.Claim, now time.Time) renewer.Grant {
	if _, err := renewer.Millis(c.TTL); err != nil {
		return renewer.Grant{Err: err}
	}
	until := now.Add(c.TTL)
	l, ok := s.live(c.Name, now)
	switch {
	case !ok, l.owner == c.Owner && c.Fence != 0 && c.Fence != l.fence:
		fence, granted := s.chooseToken(c, now)
		if !granted {
			return renewer.Grant{Status: renewer.StatusBehind, Fence: fence}
		}
		if ok && l.until.After(until) {
			until = l.until // never shortened
		}
		reserved := c.Reserve
		if c.Fence == 0 {
			// no further ahead of the clock than this, even if other owners never gave
			// their tokens back
			reserved = max(0, min(reserved, int(now.UnixMicro()-fence)+reserved))
		}
		l = lease{
			owner: c.Owner, holder: c.Holder, fence: fence, top: fence + int64(reserved),
			since: now, until: until,
		}
		s.put(c.Name, l, now)
		return renewer.Grant{Status: renewer.StatusHeld, Fence: fence, Reserved: reserved}
	case l.owner != c.Owner:
		return renewer.Grant{
			Status: renewer.StatusTaken, Holder: l.holder, HeldFor: now.Sub(l.since),
			TTL: l.until.Sub(now),
		}
	case until.After(l.until):
		l.until = until
		s.held[c.Name] = l
	}
	return renewer.Grant{Status: renewer.StatusHeld, Fence: l.fence}
}

// Renew sets the TTL of every name that its owner still has: see [renewer.Store]. A TTL below 1 ms
// is answered with [renewer.ErrConfig]. For a name that is gone it wakes those who watch it.
func (s *Store) Renew(ctx context.Context, holds []renewer.Hold) []renewer.Answer {
	return s.each(ctx, holds, func(h *renewer.Hold, l lease, now time.Time) (answer renewer.Answer,
		wakes bool,
	) {
		if _, err := renewer.Millis(h.TTL); err != nil {
			return renewer.Answer{Err: err}, false
		}
		if until := now.Add(h.TTL); until.After(l.until) {
			l.until = until
			s.held[h.Name] = l
		}
		return renewer.Answer{Status: renewer.StatusHeld}, false
	})
}

// Release frees every name that its owner still has, at once or after its hold's Keep, and calls
// the wake functions of those who watch it, or a name that is gone, before it returns: see
// [renewer.Store].
func (s *Store) Release(ctx context.Context, holds []renewer.Hold) []renewer.Answer {
	return s.each(ctx, holds, func(h *renewer.Hold, l lease, now time.Time) (answer renewer.Answer,
		wakes bool,
	) {
		if used := max(h.Used, l.fence); h.Used != 0 && used < l.top {
			l.top = used
			s.proposed.giveBack(h.Name, used)
		}
		if h.Keep > 0 {
			l.until = now.Add(h.Keep)
			s.held[h.Name] = l
		} else {
			s.remove(h.Name, l)
		}
		return renewer.Answer{Status: renewer.StatusHeld}, true
	})
}

// each answers every hold, and wakes the watches of a name that is gone, since no release did. It
// calls do, with s.mu held, for a name that its owner still has; do reports whether to wake the
// watches of that name.
func (s *Store) each(
	ctx context.Context, holds []renewer.Hold,
	do func(*renewer.Hold, lease, time.Time) (answer renewer.Answer, wakes bool),
) []renewer.Answer {
	answers := make([]renewer.Answer, len(holds))
	if err := ctx.Err(); err != nil {
		for i := range answers {
			answers[i].Err = err
		}
		return answers
	}
	var wake []*watcher
	s.mu.Lock()
	now := time.Now()
	for i := range holds {
		wakes := false
		switch l, ok := s.live(holds[i].Name, now); {
		case !ok:
			answers[i].Status, wakes = renewer.StatusGone, true
		case l.owner != holds[i].Owner:
			holder := l.holder // of l itself every call would allocate one
			answers[i] = renewer.Answer{Status: renewer.StatusTaken, Holder: &holder}
		default:
			answers[i], wakes = do(&holds[i], l, now)
		}
		if wakes {
			wake = append(wake, s.watchers[holds[i].Name]...)
		}
	}
	s.mu.Unlock()
	for _, w := range wake { // not under the lock, since it may ask this store
		w.call()
	}
	return answers
}

// Settle returns 0: a call has taken effect, or has not, by the time it returns.
func (s *Store) Settle() time.Duration { return 0 }

// live returns the lease on name, unless there is none or it has lapsed.
func (s *Store) live(name string, now time.Time) (lease, bool) {
	l, ok := s.held[name]
	return l, ok && now.Before(l.until)
}

// chooseToken returns the token for a claim: the one that it proposes,
// or the next. If a proposal is too low it returns the counter.
func (s *Store) chooseToken(c *renewer.Claim, now time.Time) (fence int64, granted bool) {
	if l, had := s.held[c.Name]; had {
		s.passToken(c.Name, l.top) // the same owner's with another token, or a lapsed one
	}
	if c.Fence == 0 {
		s.proposed.floor = s.nextFence(now)
		return s.fence, true
	}
	if least := s.proposed.counter(c.Name); c.Fence <= least {
		return least, false
	}
	s.proposed.note(c.Name, c.Fence+int64(c.Reserve), func(name string) bool {
		_, held := s.live(name, now)
		return held
	})
	s.fence = max(s.fence, c.Fence)
	return c.Fence, true
}

// remove takes a lease out.
func (s *Store) remove(name string, l lease) {
	delete(s.held, name)
	s.passToken(name, l.top)
}

// passToken puts all later tokens above top, the highest of a name's lease. While the lease is
// there, its reserved tokens are above the counter: that serves all names, and must not run ahead
// of the clock because of one.
func (s *Store) passToken(name string, top int64) {
	s.fence = max(s.fence, top)
	if s.proposed.counter(name) < top {
		s.proposed.floor = top
	}
}

// nextFence returns a token above all before it: the time, or one more than the last. So
// tokens rise over a restart too. One counter serves all names. A counter for each name
// could never be forgotten, since it would fall behind if the wall clock were set back.
func (s *Store) nextFence(now time.Time) int64 {
	s.fence = max(s.fence+1, now.UnixMicro())
	return s.fence
}

// minSweep is the size below which a map is not searched for what has lapsed.
const minSweep = 64

// put stores a new lease. When the map has doubled since the last time, it removes those that have
// lapsed first. That costs O(1) for each put on average, and no timer.
func (s *Store) put(name string, l lease, now time.Time) {
	if s.held == nil {
		s.held = make(map[string]lease)
	}
	if len(s.held) >= max(s.sweepAt, minSweep) {
		for old, l := range s.held {
			if !now.Before(l.until) {
				s.remove(old, l)
			}
		}
		s.sweepAt = 2 * len(s.held)
	}
	s.held[name] = l
}
