package worker

import (
	"context"
	"math/rand/v2"

	"github.com/lockbeat/lockbeat/nemesis/internal/history"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// saboteur breaks leases that are current, of any process, as an operator would: it looks who has a
// name, and breaks what it has seen. It never does so by force.
type saboteur struct {
	spec  Spec
	store store.Inspector
	t     *teller
	dice  *rand.Rand
}

// saboteurSeed sets its dice apart from those of callers.
const saboteurSeed = 1 << 32

func (s *saboteur) run(ctx context.Context) {
	for wait(ctx, below(s.dice, 2*s.spec.BreakEvery)) {
		s.once(ctx, s.spec.Broken[s.dice.IntN(len(s.spec.Broken))])
	}
}

// once breaks a lease of a name, if one is there.
func (s *saboteur) once(ctx context.Context, name string) {
	ctx, over := context.WithTimeout(ctx, Config(s.spec.TTL).RequestTimeout)
	defer over()
	limit := s.spec.Limits[name] != 0
	seen, err := s.store.Show(ctx, name, limit)
	if err != nil || len(seen.Slots) == 0 {
		return // a fault is at work, or it is free
	}
	fence := seen.Slots[s.dice.IntN(len(seen.Slots))].Fence
	answer := s.store.Break(ctx, store.Breaking{
		Name: name, Limit: limit, Fence: fence, Broken: store.Broken{
			By: s.spec.Name, Why: "it is the nemesis", Force: s.spec.Flaw == EagerBreak,
		},
	})
	if answer.Status == store.StatusHeld {
		s.t.tell(history.Event{Kind: history.Broke, At: history.Now(), Name: name, Fence: fence})
	}
}
