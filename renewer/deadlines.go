package renewer

import (
	"github.com/lockbeat/lockbeat/renewer/internal/timing"
)

// deadlines are when a question to the store has taken long enough. The ends of leases, of which
// there may be very many, are in [books]. The end loop keeps the time of both.
//
// What they hold true: a question with a limit is in the heap at that instant, and the loop comes
// by then.
//
// Guarded by Keeper.mu, other than the loop.
type deadlines struct {
	*timing.DeadlineHeap[*opContext]

	loop *timing.Loop
}

func newDeadlines(clock *timing.Clock) deadlines {
	return deadlines{timing.NewDeadlineHeap(deadlinePlace), timing.NewLoop(clock)}
}

// set enters a question at an instant, and has the end loop come by then.
func (d deadlines) set(c *opContext, at instant) {
	d.Set(c, at)
	d.loop.WakeBy(at)
}

func deadlinePlace(c *opContext) *timing.Place { return &c.deadlinePlace }
