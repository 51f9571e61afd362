package storetest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/renewer/store"
)

// fault is a store with one fault, and the case that must find it.
type fault struct {
	broken
	found string
}

// faults are those of stores. Those of an Inspector are beside them.
var faults = map[string]fault{
	"every caller gets it": {broken{acquire: grants(nil, func(g *store.Grant) {
		if g.Status == store.StatusTaken {
			*g = store.Grant{Status: store.StatusHeld, Fence: 1 << 60}
		}
	})}, "one of many gets a free name"},
	"a limit admits one more": {broken{acquire: grants(func(c *store.Claim) {
		if c.Limit > 0 {
			c.Limit++
		}
	}, nil)}, "a limit admits as many as it says"},
	"a slot claimed again counts twice": {func() broken {
		var n int64
		return broken{acquire: grants(func(c *store.Claim) {
			if n++; c.Limit > 0 {
				c.Owner = fmt.Sprintf("%0*d", store.OwnerLen, n)
			}
		}, nil)}
	}(), "a slot claimed again is one slot"},
	"a slot outlives its TTL": {broken{acquire: grants(func(c *store.Claim) {
		if c.Limit > 0 {
			c.TTL += time.Hour
		}
	}, nil)}, "a slot that lapses is free, and no other"},
	"a limit is a lock": {broken{acquire: grants(func(c *store.Claim) {
		c.Limit = 0
	}, nil)}, "a limit and a lock of one name are two things"},
	"a slot is released as a lock": {broken{release: func(s S, ctx C, holds []store.Hold) []store.Answer {
		return s.Release(ctx, asLocks(holds))
	}}, "a limit and a lock of one name are two things"},
	"a slot is renewed as a lock": {broken{renew: func(s S, ctx C, holds []store.Hold) []store.Answer {
		return s.Renew(ctx, asLocks(holds))
	}}, "a limit and a lock of one name are two things"},
	"a limit is watched as a lock": {broken{watch: func(
		s S, name string, _ bool, wake func(error),
	) func() {
		return s.Watch(name, false, wake)
	}}, "a limit and a lock of one name are two things"},
	"a lower number ends slots": {broken{acquire: func(s S, ctx C, claims []store.Claim) []store.Grant {
		got := s.Acquire(ctx, claims)
		for i, g := range got {
			if g.Held > claims[i].Limit {
				s.Release(ctx, []store.Hold{
					{Name: claims[i].Name, Limit: true, Owner: g.Holder.Node},
				})
			}
		}
		return got
	}}, "the number is the claim's own"},
	"a slot is not kept behind its release": {broken{release: func(s S, ctx C, holds []store.Hold) []store.Answer {
		holds = slices.Clone(holds)
		for i := range holds {
			holds[i].Keep = 0
		}
		return s.Release(ctx, holds)
	}}, "a slot that is kept after its release"},
	"renewals behind acquires": {func() broken {
		var asked, left atomic.Int64
		return broken{
			acquire: func(s S, ctx C, claims []store.Claim) []store.Grant {
				left.Add(1)
				defer left.Add(-1)
				// by the bubble's clock
				<-time.After(time.Duration(asked.Add(1)) * time.Millisecond)
				return s.Acquire(ctx, claims)
			},
			renew: func(s S, ctx C, holds []store.Hold) []store.Answer {
				for left.Load() > 0 {
					<-time.After(time.Millisecond) // by the bubble's clock
				}
				return s.Renew(ctx, holds)
			},
		}
	}(), "a renewal does not wait for a crowd of acquires"},
	"the holder is not told": {broken{acquire: grants(nil, func(g *store.Grant) {
		g.Holder = store.Holder{}
	})}, "a refused caller learns of the holder"},
	"holder cut at a bar": {broken{acquire: grants(func(c *store.Claim) {
		c.Holder.Node, _, _ = strings.Cut(c.Holder.Node, "|")
	}, nil)}, "a holder of odd bytes"},
	"TTL too long": {
		broken{acquire: grants(func(c *store.Claim) { c.TTL += time.Hour }, nil)},
		"a lease lapses at its TTL and not before",
	},
	"TTL too short": {broken{acquire: grants(func(c *store.Claim) {
		c.TTL -= min(c.TTL/2, 10*time.Millisecond)
	}, nil)}, "a lease lapses at its TTL and not before"},
	"token without order": {broken{acquire: grants(nil, func(g *store.Grant) {
		if g.Status == store.StatusHeld {
			g.Fence = 7
		}
	})}, "fencing tokens rise over releases"},
	"a new token for a repeated claim": {func() broken {
		var n int64
		return broken{acquire: grants(nil, func(g *store.Grant) {
			if g.Status == store.StatusHeld {
				n++
				g.Fence += n
			}
		})}
	}(), "a repeated claim is the same lease"},
	"names folded": {broken{acquire: grants(func(c *store.Claim) {
		c.Name = strings.ToLower(c.Name)
	}, nil)}, "odd names are all different"},
	"names cut": {broken{acquire: grants(func(c *store.Claim) {
		c.Name = c.Name[:min(len(c.Name), 511)]
	}, nil)}, "odd names are all different"},
	"answers out of order": {broken{acquire: func(s S, ctx C, claims []store.Claim) []store.Grant {
		got := s.Acquire(ctx, claims)
		slices.Reverse(got)
		return got
	}}, "a batch is answered in order"},
	"large batches cut": {broken{acquire: func(s S, ctx C, claims []store.Claim) []store.Grant {
		return s.Acquire(ctx, claims[:min(len(claims), 1000)])
	}}, "a large batch is answered in order"},
	"the context is ignored": {broken{acquire: func(s S, _ C, claims []store.Claim) []store.Grant {
		return s.Acquire(context.Background(), claims)
	}}, "a context that has ended"},
	"arguments changed": {broken{renew: func(s S, ctx C, holds []store.Hold) []store.Answer {
		got := s.Renew(ctx, holds)
		clear(holds)
		return got
	}}, "a batch is answered in order"},
	"a renewal that does nothing": {broken{renew: func(s S, ctx C, holds []store.Hold) []store.Answer {
		holds = slices.Clone(holds)
		for i := range holds {
			holds[i].TTL = time.Millisecond
		}
		return s.Renew(ctx, holds)
	}}, "a renewal keeps a lease"},
	"a renewal that makes a name": {broken{renew: func(s S, ctx C, holds []store.Hold) []store.Answer {
		got := s.Renew(ctx, holds)
		for i, h := range holds {
			if got[i].Status == store.StatusGone {
				s.Acquire(ctx, []store.Claim{{Name: h.Name, Owner: h.Owner, TTL: h.TTL}})
				got[i].Status = store.StatusHeld
			}
		}
		return got
	}}, "a renewal never makes a name"},
	"a renewal that shortens": {broken{renew: func(s S, ctx C, holds []store.Hold) []store.Answer {
		got := s.Renew(ctx, holds)
		for i, h := range holds {
			if got[i].Status == store.StatusHeld {
				s.Release(ctx, holds[i:i+1])
				s.Acquire(ctx, []store.Claim{{Name: h.Name, Owner: h.Owner, TTL: h.TTL}})
			}
		}
		return got
	}}, "a renewal never shortens a TTL"},
	"taken said for gone": {broken{renew: answers(func(a *store.Answer) {
		if a.Status == store.StatusGone {
			a.Status = store.StatusTaken
		}
	})}, "a lapsed lease has no owner"},
	"an error beside an answer": {broken{renew: answers(func(a *store.Answer) {
		a.Err = errors.New("what for")
	})}, "a renewal keeps a lease"},
	"any owner releases": {func() broken {
		h := newHeld()
		return broken{
			acquire: func(s S, ctx C, claims []store.Claim) []store.Grant {
				got := s.Acquire(ctx, claims)
				h.note(claims, got)
				return got
			},
			release: func(s S, ctx C, holds []store.Hold) []store.Answer {
				holds = slices.Clone(holds)
				for i := range holds {
					holds[i].Owner = h.owner(holds[i].Name)
				}
				return s.Release(ctx, holds)
			},
		}
	}(), "only the owner releases"},
	"a release that does nothing": {broken{release: func(s S, ctx C, holds []store.Hold) []store.Answer {
		return s.Renew(ctx, holds)
	}}, "a release frees"},
	"no wake-up on set-up": {broken{watch: func(s S, name string, limit bool, wake func(error)) func() {
		var once sync.Once
		return s.Watch(name, limit, func(err error) {
			first := false
			once.Do(func() { first = true })
			if !first {
				wake(err)
			}
		})
	}}, "a watch is woken when set up"},
	"no wake-up on release": {broken{watch: func(s S, name string, limit bool, wake func(error)) func() {
		return s.Watch("not "+name, limit, wake)
	}}, "a watch is woken by each release"},
	"no wake-up when a renewal finds the name gone": {func() broken {
		var m mute
		return broken{
			watch: m.watch,
			renew: func(s S, ctx C, holds []store.Hold) []store.Answer {
				defer m.on()()
				return s.Renew(ctx, holds)
			},
		}
	}(), "a renewal that finds the name gone wakes"},
	"no wake-up when a release finds the name gone": {func() broken {
		var m mute
		return broken{
			watch: m.watch,
			release: func(s S, ctx C, holds []store.Hold) []store.Answer {
				defer m.on()()
				return s.Release(ctx, holds)
			},
		}
	}(), "a release that finds the name gone wakes"},
	"every release wakes": {func() broken {
		var m mute
		return broken{
			watch: m.watch,
			release: func(s S, ctx C, holds []store.Hold) []store.Answer {
				got := s.Release(ctx, holds)
				m.wakeAll()
				return got
			},
		}
	}(), "a release of another's name wakes no watch"},
	"one watch a name": {func() broken {
		var mu sync.Mutex
		watched := make(map[string]func())
		return broken{watch: func(s S, name string, limit bool, wake func(error)) func() {
			mu.Lock()
			defer mu.Unlock()
			if stop := watched[name]; stop != nil {
				stop()
			}
			watched[name] = s.Watch(name, limit, wake)
			return watched[name]
		}}
	}(), "every watch on a name is woken"},
	"stop does nothing": {broken{watch: func(s S, name string, limit bool, wake func(error)) func() {
		s.Watch(name, limit, wake)
		return func() {}
	}}, "a stopped watch is not woken"},
	"stop waits for wake": {broken{watch: func(s S, name string, limit bool, wake func(error)) func() {
		var mu sync.Mutex
		stop := s.Watch(name, limit, func(err error) {
			mu.Lock()
			defer mu.Unlock()
			wake(err)
		})
		return func() {
			mu.Lock()
			defer mu.Unlock()
			stop()
		}
	}}, "a watch stopped from its own wake"},
	"preparing promises nothing": {broken{prepare: func(s S, ctx C, terms []store.Term) []store.Seen {
		if terms[0].Fence == 1 {
			return s.Prepare(ctx, terms)
		}
		var names []string
		for _, t := range terms {
			names = append(names, t.Name)
		}
		return s.Read(ctx, names)
	}, write: func(s S, ctx C, records []store.Record) []store.Answer {
		for _, r := range records {
			s.Prepare(ctx, []store.Term{{Name: r.Name, Fence: r.Fence, TTL: r.TTL}})
		}
		return s.Write(ctx, records)
	}}, "a late write is refused"},
	"a first record follows any": {broken{prepare: func(s S, ctx C, terms []store.Term) []store.Seen {
		for i := range terms {
			seen := s.Read(ctx, []string{terms[i].Name})[0]
			terms[i].After.Fence, terms[i].After.Seq = seen.Fence, seen.Seq
		}
		return s.Prepare(ctx, terms)
	}}, "preparing writes the first record"},
	"a first record is forgotten": {broken{prepare: func(s S, ctx C, terms []store.Term) []store.Seen {
		for i := range terms {
			terms[i].Data = ""
		}
		return s.Prepare(ctx, terms)
	}}, "preparing writes the first record"},
	"a read begins a term": {broken{read: func(s S, ctx C, names []string) []store.Seen {
		var terms []store.Term
		for _, name := range names {
			terms = append(terms, store.Term{Name: name, Fence: 40, TTL: time.Hour})
		}
		return s.Prepare(ctx, terms)
	}}, "a late write is refused"},
	"a write begins a term": {broken{write: func(s S, ctx C, records []store.Record) []store.Answer {
		for _, r := range records {
			s.Prepare(ctx, []store.Term{{Name: r.Name, Fence: r.Fence, TTL: r.TTL}})
		}
		return s.Write(ctx, records)
	}}, "preparing begins a term"},
	"records live on": {
		broken{write: writes(func(r *store.Record) { r.TTL += time.Hour })},
		"a record lapses, and its term",
	},
	"records are cut at a line feed": {broken{write: writes(func(r *store.Record) {
		r.Data, _, _ = strings.Cut(r.Data, "\n")
	})}, "records of any bytes"},
	"every write is a new one": {
		broken{write: writes(func(r *store.Record) { r.Data += " " })},
		"a record is there for the next holder",
	},
	"names of records in lower case": {broken{
		prepare: prepares(func(t *store.Term) { t.Name = strings.ToLower(t.Name) }),
		read: func(s S, ctx C, names []string) []store.Seen {
			lower := make([]string, len(names))
			for i := range names {
				lower[i] = strings.ToLower(names[i])
			}
			return s.Read(ctx, lower)
		},
		write: writes(func(r *store.Record) { r.Name = strings.ToLower(r.Name) }),
	}, "records are their names' own"},
	"one writes all of a batch": {broken{write: func(s S, ctx C, records []store.Record) []store.Answer {
		answers := s.Write(ctx, records)
		for i := range answers {
			answers[i] = answers[0]
		}
		return answers
	}}, "records in batches"},
	"terms live for ever": {
		broken{prepare: prepares(func(t *store.Term) { t.TTL = time.Hour })},
		"a term without a record lapses",
	},
	"readers get the time of the start": {func() broken {
		start := time.Now()
		return broken{read: func(s S, ctx C, names []string) []store.Seen {
			seen := s.Read(ctx, names)
			for i := range seen {
				seen[i].Now = start
			}
			return seen
		}}
	}(), "answers have the store's time"},
	"an erasure leaves an empty record": {broken{write: writes(func(r *store.Record) {
		if r.Erase {
			r.Erase, r.Data, r.TTL = false, "", time.Hour
		}
	})}, "a record that is erased leaves nothing"},
	"records written whenever": {broken{write: func(s S, _ C, records []store.Record) []store.Answer {
		return s.Write(context.Background(), records)
	}}, "records and a context that has ended"},
}

// asLocks takes the holds of slots for those of locks.
func asLocks(holds []store.Hold) []store.Hold {
	holds = slices.Clone(holds)
	for i := range holds {
		holds[i].Limit = false
	}
	return holds
}
