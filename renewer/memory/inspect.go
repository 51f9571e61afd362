package memory

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

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
