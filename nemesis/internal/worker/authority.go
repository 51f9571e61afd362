package worker

import (
	"context"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/nemesis/internal/history"
)

// authority tells which server the client takes for the primary, whenever that has changed.
type authority struct {
	primary func() string // nil without Sentinels
	t       *teller

	mu   sync.Mutex // guards what follows, and keeps others back until a change is told
	last string
}

// look is called after each answer of the store, before that is told: what a new primary has
// granted comes after the word of it.
func (a *authority) look() {
	if a.primary == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := a.primary(); now != a.last {
		a.last = now
		a.t.tell(history.Event{Kind: history.Told, At: history.Now(), Name: now})
	}
}

// watch looks though no answer comes, until ctx ends.
func (a *authority) watch(ctx context.Context) {
	if a.primary == nil {
		return
	}
	ticks := time.NewTicker(pulse)
	defer ticks.Stop()
	for ctx.Err() == nil {
		a.look()
		select {
		case <-ticks.C:
		case <-ctx.Done():
		}
	}
}
