package storetest_test

import (
	"context"
	"iter"
	"slices"
	"sync"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/internal/testutil/engine"
	"github.com/lockbeat/lockbeat/renewer/store"
)

type (
	S = engine.Whole
	C = context.Context
)

// broken is a store that is right but for what is not nil.
type broken struct {
	engine.Whole
	acquire func(S, C, []store.Claim) []store.Grant
	renew   func(S, C, []store.Hold) []store.Answer
	release func(S, C, []store.Hold) []store.Answer
	watch   func(S, string, bool, func(error)) func()
	prepare func(S, C, []store.Term) []store.Seen
	read    func(S, C, []string) []store.Seen
	write   func(S, C, []store.Record) []store.Answer
	list    func(S, C, func(string, bool) bool) iter.Seq2[store.Lock, error]
	show    func(S, C, string, bool) (store.Lock, error)
	breaks  func(S, C, store.Breaking) store.Answer
	onBreak func(S, store.Holder, func(string, bool)) func()
	replace func(S, C, contract.Replacement) (int64, error)
}

// or calls faulty, or right if that is nil.
func or[In, Out any](
	ctx context.Context, b broken, faulty, right func(S, C, []In) []Out, items []In,
) []Out {
	if faulty == nil {
		faulty = right
	}
	return faulty(b.Whole, ctx, items)
}

func (b broken) Acquire(ctx context.Context, claims []store.Claim) []store.Grant {
	return or(ctx, b, b.acquire, S.Acquire, claims)
}

func (b broken) Renew(ctx context.Context, holds []store.Hold) []store.Answer {
	return or(ctx, b, b.renew, S.Renew, holds)
}

func (b broken) Release(ctx context.Context, holds []store.Hold) []store.Answer {
	return or(ctx, b, b.release, S.Release, holds)
}

func (b broken) Watch(name string, limit bool, wake func(error)) func() {
	if b.watch == nil {
		return b.Whole.Watch(name, limit, wake)
	}
	return b.watch(b.Whole, name, limit, wake)
}

func (b broken) Prepare(ctx context.Context, terms []store.Term) []store.Seen {
	return or(ctx, b, b.prepare, S.Prepare, terms)
}

func (b broken) Read(ctx context.Context, names []string) []store.Seen {
	return or(ctx, b, b.read, S.Read, names)
}

func (b broken) Write(ctx context.Context, records []store.Record) []store.Answer {
	return or(ctx, b, b.write, S.Write, records)
}

func (b broken) List(
	ctx context.Context, want func(string, bool) bool,
) iter.Seq2[store.Lock, error] {
	if b.list == nil {
		return b.Whole.List(ctx, want)
	}
	return b.list(b.Whole, ctx, want)
}

func (b broken) Show(ctx context.Context, name string, limit bool) (store.Lock, error) {
	if b.show == nil {
		return b.Whole.Show(ctx, name, limit)
	}
	return b.show(b.Whole, ctx, name, limit)
}

func (b broken) Break(ctx context.Context, order store.Breaking) store.Answer {
	if b.breaks == nil {
		return b.Whole.Break(ctx, order)
	}
	return b.breaks(b.Whole, ctx, order)
}

func (b broken) OnBreak(holder store.Holder, look func(string, bool)) func() {
	if b.onBreak == nil {
		return b.Whole.OnBreak(holder, look)
	}
	return b.onBreak(b.Whole, holder, look)
}

func (b broken) Replace(ctx context.Context, r contract.Replacement) (int64, error) {
	if b.replace == nil {
		return b.Whole.Replace(ctx, r)
	}
	return b.replace(b.Whole, ctx, r)
}

// prepares makes a faulty Prepare, and writes a faulty Write, by changing
// each item before it is put to the store.
func prepares(before func(*store.Term)) func(S, C, []store.Term) []store.Seen {
	return func(s S, ctx C, terms []store.Term) []store.Seen {
		return s.Prepare(ctx, changed(terms, before))
	}
}

func writes(before func(*store.Record)) func(S, C, []store.Record) []store.Answer {
	return func(s S, ctx C, records []store.Record) []store.Answer {
		return s.Write(ctx, changed(records, before))
	}
}

// changed is a copy of items, each changed.
func changed[A any](items []A, change func(*A)) []A {
	items = slices.Clone(items)
	for i := range items {
		change(&items[i])
	}
	return items
}

// grants makes a faulty Acquire by changing each claim before, or
// each grant after; either may be nil.
func grants(
	before func(*store.Claim), after func(*store.Grant),
) func(S, C, []store.Claim) []store.Grant {
	return func(s S, ctx C, claims []store.Claim) []store.Grant {
		if before != nil {
			claims = changed(claims, before)
		}
		got := s.Acquire(ctx, claims)
		if after != nil {
			got = changed(got, after)
		}
		return got
	}
}

func answers(after func(*store.Answer)) func(S, C, []store.Hold) []store.Answer {
	return func(s S, ctx C, holds []store.Hold) []store.Answer {
		return changed(s.Renew(ctx, holds), after)
	}
}

// held remembers who has what, for stores that are too willing.
type held struct {
	mu     sync.Mutex
	owners map[string]string
}

func newHeld() *held { return &held{owners: make(map[string]string)} }

func (h *held) owner(name string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.owners[name]
}

func (h *held) note(claims []store.Claim, got []store.Grant) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, g := range got {
		if g.Status == store.StatusHeld {
			h.owners[claims[i].Name] = claims[i].Owner
		}
	}
}

// mute has the wake-ups of a store in its hands.
type mute struct {
	mu    sync.Mutex
	muted bool
	wakes []func(error)
}

func (m *mute) watch(s S, name string, limit bool, wake func(error)) func() {
	m.mu.Lock()
	m.wakes = append(m.wakes, wake)
	m.mu.Unlock()
	return s.Watch(name, limit, func(err error) {
		m.mu.Lock()
		muted := m.muted
		m.mu.Unlock()
		if !muted {
			wake(err)
		}
	})
}

// on mutes all watches until the function that it returns is called.
func (m *mute) on() (off func()) {
	set := func(muted bool) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.muted = muted
	}
	set(true)
	return func() { set(false) }
}

func (m *mute) wakeAll() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, wake := range m.wakes {
		wake(nil)
	}
}
