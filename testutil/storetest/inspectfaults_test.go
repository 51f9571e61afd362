package storetest_test

import (
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/lockbeat/lockbeat/renewer/store"
)

// inspectFaults are those of an Inspector.
var inspectFaults = map[string]fault{
	"the holder is not shown": {broken{show: shows(func(l *store.Lock) {
		for i := range l.Slots {
			l.Slots[i].Holder = store.Holder{}
		}
	})}, "who has a name is shown"},
	"hand-offs are shown as grants": {broken{show: shows(func(l *store.Lock) {
		for i := range l.Slots {
			l.Slots[i].Since = l.At
		}
	})}, "who has a name is shown"},
	"a look makes the name": {broken{show: func(s S, ctx C, name string, limit bool) (store.Lock, error) {
		s.Acquire(ctx, []store.Claim{{Name: name, Owner: "a look", TTL: long, Limit: 9}})
		return s.Show(ctx, name, limit)
	}}, "a free name is shown as free"},
	"slots in any order": {broken{show: shows(func(l *store.Lock) {
		slices.Reverse(l.Slots)
	})}, "the slots of a limit are shown"},
	"a limit is listed as a lock": {broken{list: lists(func(l store.Lock) []store.Lock {
		l.Limit = false
		return []store.Lock{l}
	})}, "each held name is listed once"},
	"names are listed twice": {broken{list: lists(func(l store.Lock) []store.Lock {
		return []store.Lock{l, l}
	})}, "each held name is listed once"},
	"odd names are not listed": {broken{list: lists(func(l store.Lock) []store.Lock {
		if strings.Contains(l.Name, "%") {
			return nil
		}
		return []store.Lock{l}
	})}, "each held name is listed once"},
	"all are listed": {broken{
		list: func(s S, ctx C, _ func(string, bool) bool) iter.Seq2[store.Lock, error] {
			return s.List(ctx, nil)
		},
	}, "only what is wanted is listed"},
	"a list ignores its context": {broken{
		list: func(s S, _ C, want func(string, bool) bool) iter.Seq2[store.Lock, error] {
			return s.List(context.Background(), want)
		},
	}, "an inspection and a context that has ended"},
	"a broken lease is renewed": {broken{renew: answers(func(a *store.Answer) {
		if a.Status == store.StatusBroken {
			*a = store.Answer{Status: store.StatusHeld}
		}
	})}, "a broken lease is not renewed, and not free"},
	"each is broken by force": {broken{breaks: breaks(func(_ S, b *store.Breaking) {
		b.Force = true
	})}, "a broken lease is not renewed, and not free"},
	"a broken lease lives on": {broken{renew: func(s S, ctx C, holds []store.Hold) []store.Answer {
		got := s.Renew(ctx, holds)
		for i, a := range got {
			if a.Status == store.StatusBroken {
				s.Release(ctx, holds[i:i+1])
				s.Acquire(ctx, []store.Claim{{Name: holds[i].Name, Owner: "new", TTL: long}})
			}
		}
		return got
	}}, "a broken lease lapses at its TTL"},
	"a broken lease is kept behind its release": {broken{
		release: func(_ S, _ C, holds []store.Hold) []store.Answer {
			return slices.Repeat([]store.Answer{{Status: store.StatusHeld}}, len(holds))
		},
	}, "a broken lease is freed at once by its owner"},
	"its owner is not told when it asks again": {broken{
		acquire: func(s S, ctx C, claims []store.Claim) []store.Grant {
			got := s.Acquire(ctx, claims)
			for i := range got {
				got[i].Broken = false
			}
			return got
		},
	}, "a broken lease is not renewed, and not free"},
	"force wakes no watch": {func() broken {
		var m mute
		return broken{
			watch: m.watch,
			breaks: func(s S, ctx C, b store.Breaking) store.Answer {
				defer m.on()()
				return s.Break(ctx, b)
			},
		}
	}(), "a lease broken by force is free at once"},
	"who used force is not told": {broken{renew: answers(func(a *store.Answer) {
		a.Broken = nil
	})}, "a lease broken by force is free at once"},
	"force is of no use afterwards": {func() broken {
		done := make(map[string]bool)
		return broken{breaks: breaks(func(_ S, b *store.Breaking) {
			b.Force = b.Force && !done[b.Name]
			done[b.Name] = true
		})}
	}(), "a broken lease may be broken by force"},
	"any token will do": {broken{breaks: breaks(func(s S, b *store.Breaking) {
		if l, _ := s.Show(context.Background(), b.Name, b.Limit); len(l.Slots) > 0 {
			b.Fence = l.Slots[0].Fence
		}
	})}, "only the lease that has the token is broken"},
	"the last is who broke it": {broken{breaks: breaks(func(s S, b *store.Breaking) {
		b.By = "the last"
	})}, "a lease may be broken again"},
	"all slots are broken": {broken{breaks: func(s S, ctx C, b store.Breaking) store.Answer {
		answer := s.Break(ctx, b)
		l, _ := s.Show(ctx, b.Name, b.Limit)
		for _, slot := range l.Slots {
			b.Fence = slot.Fence
			s.Break(ctx, b)
		}
		return answer
	}}, "one slot is broken, and no other"},
	"no slot is broken by force": {broken{breaks: breaks(func(_ S, b *store.Breaking) {
		b.Force = b.Force && !b.Limit
	})}, "a slot is broken by force"},
	"who broke it is cut short": {broken{breaks: breaks(func(_ S, b *store.Breaking) {
		b.By = b.By[:min(len(b.By), 20)]
	})}, "who broke a lease is kept short and printable"},
	"the process does not hear": {broken{
		onBreak: func(S, store.Holder, func(string, bool)) func() { return func() {} },
	}, "the process hears of a lease that is broken"},
	"the process does not hear that it is told": {broken{
		onBreak: func(s S, holder store.Holder, look func(string, bool)) func() {
			return s.OnBreak(holder, func(name string, limit bool) {
				if name != "" {
					look(name, limit)
				}
			})
		},
	}, "the process hears of a lease that is broken"},
	"the process hears for ever": {broken{
		onBreak: func(s S, holder store.Holder, look func(string, bool)) func() {
			s.OnBreak(holder, look)
			return func() {}
		},
	}, "the process hears of a lease that is broken"},
}

const long = time.Minute

func shows(after func(*store.Lock)) func(S, C, string, bool) (store.Lock, error) {
	return func(s S, ctx C, name string, limit bool) (store.Lock, error) {
		l, err := s.Show(ctx, name, limit)
		after(&l)
		return l, err
	}
}

// lists makes a faulty List by putting others in the place of each lock.
func lists(
	after func(store.Lock) []store.Lock,
) func(S, C, func(string, bool) bool) iter.Seq2[store.Lock, error] {
	return func(s S, ctx C, want func(string, bool) bool) iter.Seq2[store.Lock, error] {
		return func(yield func(store.Lock, error) bool) {
			for l, err := range s.List(ctx, want) {
				for _, other := range after(l) {
					if !yield(other, err) {
						return
					}
				}
			}
		}
	}
}

func breaks(before func(S, *store.Breaking)) func(S, C, store.Breaking) store.Answer {
	return func(s S, ctx C, b store.Breaking) store.Answer {
		before(s, &b)
		return s.Break(ctx, b)
	}
}
