package memory

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/store"
)

var _ store.Inspector = (*engine)(nil)

// listStep is how many names List reads at once, so that it holds up no
// heartbeat.
const listStep = 256

// List reads all names that owners have, some hundreds at a time: see
// [store.Inspector]. want and the loop over the sequence may call this store.
// The error is that of ctx.
func (s *engine) List(
	ctx context.Context, want func(name string, limit bool) bool,
) iter.Seq2[store.Lock, error] {
	return func(yield func(store.Lock, error) bool) {
		for names := s.names(); ; {
			if err := ctx.Err(); err != nil {
				yield(store.Lock{}, err)
				return
			}
			step := names[:min(listStep, len(names))]
			for _, l := range s.read(chosen(step, want)) {
				if !yield(l, nil) {
					return
				}
			}
			if names = names[len(step):]; len(names) == 0 {
				return
			}
		}
	}
}

// names are all that may be held.
func (s *engine) names() []contract.Name {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := make([]contract.Name, 0, len(s.held)+len(s.limits))
	for name := range s.held {
		names = append(names, contract.Name{Text: name})
	}
	for name := range s.limits {
		names = append(names, contract.Name{Text: name, Limit: true})
	}
	return names
}

// chosen are those names that want wants. It changes names.
func chosen(names []contract.Name, want func(name string, limit bool) bool) []contract.Name {
	if want == nil {
		return names
	}
	return slices.DeleteFunc(names, func(n contract.Name) bool { return !want(n.Text, n.Limit) })
}

// read returns those of names that owners have.
func (s *engine) read(names []contract.Name) []store.Lock {
	held := make([]store.Lock, 0, len(names))
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, name := range names {
		if l := s.show(name, now); len(l.Slots) > 0 {
			held = append(held, l)
		}
	}
	return held
}

// Show reads one name: see [store.Inspector]. There is no line of places:
// Waiting is how many watch the name, which a keeper does while its callers
// wait for it, and Places is nil. The error is that of ctx.
func (s *engine) Show(ctx context.Context, name string, limit bool) (store.Lock, error) {
	if err := ctx.Err(); err != nil {
		return store.Lock{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.show(contract.Name{Text: name, Limit: limit}, time.Now()), nil
}

// show is Show, with s.mu held.
func (s *engine) show(name contract.Name, now time.Time) store.Lock {
	l := store.Lock{
		Name: name.Text, Limit: name.Limit, Waiting: len(s.watchers.of[name]), At: now,
	}
	for _, held := range s.leases(name, now) {
		l.Slots = append(l.Slots, store.Slot{
			Holder: held.holder, Fence: held.fence, Since: held.since, TTL: held.until.Sub(now),
			Broken: s.brokenBy(name, held.owner, now),
			Told:   s.broken[ownership{name, held.owner}].told, Callers: held.callers,
		})
	}
	return l
}

// leases are those that live on a name, the one that lapses first in front.
func (s *engine) leases(name contract.Name, now time.Time) []lease {
	if !name.Limit {
		if l, ok := s.live(name.Text, now); ok {
			return []lease{l}
		}
		return nil
	}
	all := s.limits[name.Text]
	if all == nil {
		return nil
	}
	var live []lease
	for _, l := range all.leases {
		if now.Before(l.until) {
			live = append(live, l)
		}
	}
	slices.SortFunc(live, func(a, b lease) int {
		return cmp.Or(a.until.Compare(b.until), cmp.Compare(a.fence, b.fence))
	})
	return live
}

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
