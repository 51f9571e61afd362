package storetest_test

import (
	"context"
	"slices"
	"sync"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

// broken is a store that is right but for what is not nil.
type broken struct {
	*memory.Store
	acquire func(*memory.Store, context.Context, []renewer.Claim) []renewer.Grant
	renew   func(*memory.Store, context.Context, []renewer.Hold) []renewer.Answer
	release func(*memory.Store, context.Context, []renewer.Hold) []renewer.Answer
	watch   func(*memory.Store, string, func(error)) func()
}

func (b broken) Acquire(ctx context.Context, claims []renewer.Claim) []renewer.Grant {
	if b.acquire == nil {
		return b.Store.Acquire(ctx, claims)
	}
	return b.acquire(b.Store, ctx, claims)
}

func (b broken) Renew(ctx context.Context, holds []renewer.Hold) []renewer.Answer {
	if b.renew == nil {
		return b.Store.Renew(ctx, holds)
	}
	return b.renew(b.Store, ctx, holds)
}

func (b broken) Release(ctx context.Context, holds []renewer.Hold) []renewer.Answer {
	if b.release == nil {
		return b.Store.Release(ctx, holds)
	}
	return b.release(b.Store, ctx, holds)
}

func (b broken) Watch(name string, wake func(error)) func() {
	if b.watch == nil {
		return b.Store.Watch(name, wake)
	}
	return b.watch(b.Store, name, wake)
}

// grants makes a faulty Acquire by changing each claim before, or each grant after; either may be nil.
func grants(before func(*renewer.Claim), after func(*renewer.Grant)) func(*memory.Store, context.Context, []renewer.Claim) []renewer.Grant {
	return func(s *memory.Store, ctx context.Context, claims []renewer.Claim) []renewer.Grant {
		claims = slices.Clone(claims)
		for i := range claims {
			if before != nil {
				before(&claims[i])
			}
		}
		got := s.Acquire(ctx, claims)
		for i := range got {
			if after != nil {
				after(&got[i])
			}
		}
		return got
	}
}

func answers(after func(*renewer.Answer)) func(*memory.Store, context.Context, []renewer.Hold) []renewer.Answer {
	return func(s *memory.Store, ctx context.Context, holds []renewer.Hold) []renewer.Answer {
		got := s.Renew(ctx, holds)
		for i := range got {
			after(&got[i])
		}
		return got
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

func (h *held) note(claims []renewer.Claim, got []renewer.Grant) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, g := range got {
		if g.Status == renewer.Mine {
			h.owners[claims[i].Name] = claims[i].Owner
		}
	}
}
