// Package memory is a [store.Store] inside this process. It needs no server, so
// a program can adopt locks, and test them, before it has Redis.
//
//	keeper, err := renewer.New(memory.New(), renewer.Config{TTL: renewer.DefaultTTL})
//
// It keeps the whole contract. Its authority is a map under a mutex. What it
// cannot do:
//
//   - Exclude callers outside this process, or of another [Store]: two Stores are two locks.
//   - Remember: after a restart every name is free. Fencing tokens go on rising over a restart only
//     as far as the wall clock does. Each is the time in microseconds, or one more than the token
//     before.
//
// TTLs run on time.Now's monotonic clock, and follow the fake clock of
// testing/synctest. There is no goroutine in the background: the memory of
// lapsed names is reclaimed when names are acquired.
package memory

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// Store keeps locks in memory. The zero value is ready to use, and must not be
// copied after that.
type Store struct{ engine engine }

// New returns an empty store.
func New() *Store { return new(Store) }

// Engine is for renewer.New.
func (s *Store) Engine() store.Store { return &s.engine }

// engine holds names for owners in this process.
type engine struct {
	mu       sync.Mutex // guards what follows
	held     map[string]lease
	heldAt   int // size of held at which lapsed leases are removed: see sweep
	limits   map[string]*slots
	limitsAt int // size of limits at which those without slots are removed
	broken   map[ownership]breakage
	brokenAt int               // size of broken at which lapsed ones are removed
	newest   map[string]newest // calls that wait, by name
	newestAt int
	begun    map[string]begun // calls that have had a name
	begunAt  int
	tokens   tokens
	records  records
	watchers listeners[contract.Name, error]
	lookers  listeners[process, contract.Name]
}

var _ contract.Proposer = (*engine)(nil)

// lease is a name held, or lapsed and not removed yet.
type lease struct {
	owner  string
	holder store.Holder
	fence  int64
	since  time.Time
	until  time.Time
	// callers is what the owner has told: see store.Slot.
	callers int
}

// Acquire tries each claim once: see [store.Store]. A claim that repeats its
// owner's renews as Renew does, so it never shortens the TTL. A TTL below 1 ms
// is answered with [renewer.ErrConfig].
func (s *engine) Acquire(ctx context.Context, claims []store.Claim) []store.Grant {
	grants := make([]store.Grant, len(claims))
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
		grants[i] = s.claim(&claims[i], now)
	}
	return grants
}

// claim is Acquire for one claim, with s.mu held.
func (s *engine) claim(c *store.Claim, now time.Time) store.Grant {
	if c.Limit != 0 {
		return s.claimSlot(c, now)
	}
	if s.late(c.Name, c.Owner, c.Newness, now) {
		return store.Grant{Status: store.StatusReplaced}
	}
	answer, free := s.ask(c, 0, now)
	if !free {
		return answer
	}
	s.noteBegun(c.Name, c.Newness, now)
	// The time, or one more than the last: so tokens rise over a restart too.
	fence := max(now.UnixMicro(), s.tokens.counter(c.Name)+1)
	last := fence
	if c.Place != 0 {
		last = max(fence, now.UnixMicro()+store.MaxReserved)
	}
	s.tokens.floor = last
	return s.grant(c, fence, int(last-fence), now)
}

// Propose tries each proposal once: see [contract.Proposer].
func (s *engine) Propose(ctx context.Context, proposals []contract.Proposal) []store.Grant {
	grants := make([]store.Grant, len(proposals))
	if err := ctx.Err(); err != nil {
		for i := range grants {
			grants[i].Err = err
		}
		return grants
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for i := range proposals {
		grants[i] = s.propose(&proposals[i], now)
	}
	return grants
}

func (s *engine) propose(p *contract.Proposal, now time.Time) store.Grant {
	answer, free := s.ask(&p.Claim, p.Fence, now)
	if !free {
		return answer
	}
	if least := s.tokens.counter(p.Name); p.Fence <= least {
		return store.Grant{Status: store.StatusBehind, Fence: least}
	}
	s.tokens.note(p.Name, p.Fence+int64(p.Reserve), func(name string) bool {
		_, held := s.live(name, now)
		return held
	})
	return s.grant(&p.Claim, p.Fence, p.Reserve, now)
}

// ask answers a claim of a name that is held, and renews it for its owner; or
// says that the claim may be granted: the name is free, or its owner's with
// another token than the proposed one.
func (s *engine) ask(
	c *store.Claim, proposed int64, now time.Time,
) (answer store.Grant, free bool) {
	if _, err := store.Millis(c.TTL); err != nil {
		return store.Grant{Err: err}, false
	}
	l, ok := s.live(c.Name, now)
	switch {
	case !ok:
		return store.Grant{}, true
	case l.owner != c.Owner, s.brokenBy(contract.Claimed(c), c.Owner, now) != nil:
		return store.Grant{
			Status: store.StatusTaken, Holder: l.holder, HeldFor: now.Sub(l.since),
			TTL: l.until.Sub(now), Broken: l.owner == c.Owner,
		}, false
	case proposed != 0 && proposed != l.fence:
		return store.Grant{}, true
	}
	if until := now.Add(c.TTL); until.After(l.until) {
		l.until = until
		s.held[c.Name] = l
	}
	return store.Grant{Status: store.StatusHeld, Fence: l.fence}, false
}

// grant gives a name to an owner, who may have it already: its TTL is never
// shortened.
func (s *engine) grant(c *store.Claim, fence int64, reserved int, now time.Time) store.Grant {
	until := now.Add(c.TTL)
	if l, ok := s.live(c.Name, now); ok && l.until.After(until) {
		until = l.until
	}
	s.put(c.Name, lease{
		owner: c.Owner, holder: c.Holder, fence: fence, since: now, until: until,
		callers: c.Callers,
	}, now)
	return store.Grant{Status: store.StatusHeld, Fence: fence, Reserved: reserved}
}

// Renew sets the TTL of every name that its owner still has and that is not
// broken: see [store.Store]. A TTL below 1 ms is answered with
// [renewer.ErrConfig]. For a name that is gone it wakes those who watch it.
func (s *engine) Renew(ctx context.Context, holds []store.Hold) []store.Answer {
	return s.each(ctx, holds, func(h *store.Hold, l lease, now time.Time) (answer store.Answer,
		wakes bool,
	) {
		if _, err := store.Millis(h.TTL); err != nil {
			return store.Answer{Err: err}, false
		}
		if by := s.brokenBy(contract.Held(h), h.Owner, now); by != nil {
			s.tell(ownership{contract.Held(h), h.Owner})
			return store.Answer{Status: store.StatusBroken, Broken: by}, false
		}
		if h.Tells {
			l.callers = h.Callers
		}
		if until := now.Add(h.TTL); until.After(l.until) {
			l.until = until
		}
		s.keep(contract.Held(h), l)
		return store.Answer{Status: store.StatusHeld}, false
	})
}

// Release frees every name that its owner still has, at once or after its
// hold's Keep, a broken one always at once. It calls the wake functions of
// those who watch it, or a name that is gone, before it returns: see
// [store.Store].
func (s *engine) Release(ctx context.Context, holds []store.Hold) []store.Answer {
	return s.each(ctx, holds, func(h *store.Hold, l lease, now time.Time) (answer store.Answer,
		wakes bool,
	) {
		if h.Keep > 0 && s.brokenBy(contract.Held(h), h.Owner, now) == nil {
			l.until = now.Add(h.Keep)
			s.keep(contract.Held(h), l)
		} else {
			s.free(contract.Held(h), l)
			delete(s.broken, ownership{contract.Held(h), h.Owner})
		}
		return store.Answer{Status: store.StatusHeld}, true
	})
}

// each answers every hold, and wakes the watches of a name that is gone, since
// no release did. It calls do, with s.mu held, for a name that its owner still
// has; do reports whether to wake the watches of that name.
func (s *engine) each(
	ctx context.Context, holds []store.Hold,
	do func(*store.Hold, lease, time.Time) (answer store.Answer, wakes bool),
) []store.Answer {
	answers := make([]store.Answer, len(holds))
	if err := ctx.Err(); err != nil {
		for i := range answers {
			answers[i].Err = err
		}
		return answers
	}
	var wake []*listener[error]
	s.mu.Lock()
	now := time.Now()
	for i := range holds {
		wakes, name := false, contract.Held(&holds[i])
		switch l, mine, taken := s.lookUp(&holds[i], now); {
		case mine:
			answers[i], wakes = do(&holds[i], l, now)
		case taken:
			holder := l.holder // of l itself every call would allocate one
			answers[i] = store.Answer{Status: store.StatusTaken, Holder: &holder}
			answers[i].Broken = s.brokenBy(name, holds[i].Owner, now)
		default:
			answers[i].Status, wakes = store.StatusGone, true
			answers[i].Broken = s.brokenBy(name, holds[i].Owner, now)
		}
		if wakes {
			wake = append(wake, s.watchers.of[name]...)
		}
	}
	s.mu.Unlock()
	for _, w := range wake { // not under the lock, since it may ask this store
		w.call(nil)
	}
	return answers
}

// Settle returns 0: a call has taken effect, or has not, by the time it
// returns.
func (s *engine) Settle() time.Duration { return 0 }

// live returns the lease on name, unless there is none or it has lapsed.
func (s *engine) live(name string, now time.Time) (lease, bool) {
	l, ok := s.held[name]
	return l, ok && now.Before(l.until)
}

// put stores a new lease.
func (s *engine) put(name string, l lease, now time.Time) {
	if s.held == nil {
		s.held = make(map[string]lease)
	}
	sweep(s.held, &s.heldAt, func(_ string, l lease) bool { return !now.Before(l.until) })
	s.held[name] = l
}

// minSweep is the size below which a map is not searched for what has lapsed.
const minSweep = 64

// sweep removes what has lapsed from a map that is about to grow, if the map
// has doubled since the last time: at is the size at which it has. That costs
// O(1) for each entry on average, and no timer.
func sweep[K comparable, V any](m map[K]V, at *int, lapsed func(K, V) bool) {
	if len(m) < max(*at, minSweep) {
		return
	}
	maps.DeleteFunc(m, lapsed)
	*at = 2 * len(m)
}

// tokens are the fencing tokens granted: of those that the store picked, the
// highest is the floor of all names; of those that were proposed there is a
// counter for each name, since the proposers of different names know nothing of
// each other. The counters of names that are free are forgotten from time to
// time. Then the highest of them is the floor of all.
type tokens struct {
	counters map[string]int64
	floor    int64 // no counter is lower
	sweepAt  int
}

// counter is what a token for name must exceed.
func (t *tokens) counter(name string) int64 { return max(t.floor, t.counters[name]) }

// note sets the counter of name, whose lease is about to be stored.
func (t *tokens) note(name string, fence int64, held func(string) bool) {
	if t.counters == nil {
		t.counters = make(map[string]int64)
	}
	sweep(t.counters, &t.sweepAt, func(old string, counter int64) bool {
		if held(old) {
			return false
		}
		t.floor = max(t.floor, counter)
		return true
	})
	t.counters[name] = fence
}
