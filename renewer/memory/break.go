package memory

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// process is one in which keepers run.
type process struct {
	node string
	pid  int
}

// ownership is what a lease is known by after it has ended.
type ownership struct {
	name  contract.Name
	owner string
}

// breakage is who broke a lease. It lasts as long as the lease would have, or
// until the owner releases it: so the owner of one that was freed by force is
// told, too.
type breakage struct {
	by    store.Broken
	until time.Time
	told  bool // the owner has heard so by a renewal
}

// OnBreak calls look at once, and then in the goroutine that breaks a lease:
// see [store.Inspector].
func (s *engine) OnBreak(holder store.Holder, look func(name string, limit bool)) (stop func()) {
	tell := func(name contract.Name) { look(name.Text, name.Limit) }
	_, stop = s.lookers.add(&s.mu, process{holder.Node, holder.PID}, tell)
	look("", false)
	return stop
}

// Break breaks one lease, and calls the functions given to OnBreak, and with
// Force those that watch the name, before it returns: see [store.Inspector].
// Who has broken a lease first is kept, unless it is broken by force then. The
// error is that of ctx.
func (s *engine) Break(ctx context.Context, b store.Breaking) store.Answer {
	if err := ctx.Err(); err != nil {
		return store.Answer{Err: err}
	}
	b.By, b.Why = printable(b.By), printable(b.Why)
	var wake []*listener[error]
	var look []*listener[contract.Name]
	name := contract.Broken(&b)
	s.mu.Lock()
	now := time.Now()
	l, answer := s.leaseToBreak(&b, now)
	if answer.Status == store.StatusHeld {
		look = slices.Clone(s.lookers.of[process{l.holder.Node, l.holder.PID}])
		if s.breakLease(&b, l, now) {
			wake = slices.Clone(s.watchers.of[name])
		}
	}
	s.mu.Unlock()
	for _, w := range wake { // not under the lock, since they may ask this store
		w.call(nil)
	}
	for _, l := range look {
		l.call(name)
	}
	return answer
}

// leaseToBreak is the one that has the token, if the answer is StatusHeld.
func (s *engine) leaseToBreak(b *store.Breaking, now time.Time) (lease, store.Answer) {
	all := s.leases(contract.Broken(b), now)
	if i := slices.IndexFunc(all, func(l lease) bool { return l.fence == b.Fence }); i >= 0 {
		return all[i], store.Answer{Status: store.StatusHeld}
	}
	if b.Limit || len(all) == 0 {
		return lease{}, store.Answer{Status: store.StatusGone} // no other slot is in its place
	}
	return lease{}, store.Answer{Status: store.StatusTaken, Holder: &all[0].holder}
}

// breakLease notes who broke a lease that lives, and with Force frees it.
func (s *engine) breakLease(b *store.Breaking, l lease, now time.Time) (freed bool) {
	name := contract.Broken(b)
	if !b.Force && s.brokenBy(name, l.owner, now) != nil {
		return false
	}
	if s.broken == nil {
		s.broken = make(map[ownership]breakage)
	}
	sweep(s.broken, &s.brokenAt, func(_ ownership, b breakage) bool { return !now.Before(b.until) })
	s.broken[ownership{name, l.owner}] = breakage{by: b.Broken, until: l.until}
	if b.Force {
		s.free(name, l)
	}
	return b.Force
}

// brokenBy is who broke a lease of an owner, also one that has been freed
// since; nil if it is not broken.
func (s *engine) brokenBy(name contract.Name, owner string, now time.Time) *store.Broken {
	if len(s.broken) == 0 {
		return nil
	}
	b, ok := s.broken[ownership{name, owner}]
	if !ok || !now.Before(b.until) {
		return nil
	}
	return &b.by
}

// tell notes that the owner of a lease that is broken has heard so.
func (s *engine) tell(of ownership) {
	b := s.broken[of]
	b.told = true
	s.broken[of] = b
}

// maxPart is how much is kept of who broke a lease, and of why, in bytes.
const maxPart = 64

// printable is s without what can't be printed, and cut. Broken UTF-8 arrives
// as RuneError.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return -1
		}
		return r
	}, s)
	if len(s) <= maxPart {
		return s
	}
	end := maxPart
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}
