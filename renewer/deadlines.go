package renewer

import (
	"github.com/lockbeat/lockbeat/renewer/internal/timing"
)

// deadlines are when belief in each lease ends, and when a question to the store has taken long
// enough.
//
// What they hold true: a lease that is held, or asked for by a question with a limit, is in the
// heap at an instant no later than its own. So the end loop ends it in time.
//
// Guarded by Keeper.mu, other than the loop.
type deadlines struct {
	*timing.DeadlineHeap[*Lease]

	loop *timing.Loop
}

func newDeadlines(clock *timing.Clock) deadlines {
	return deadlines{timing.NewDeadlineHeap(deadlinePlace), timing.NewLoop(clock)}
}

// set enters a lease at an instant, or moves it there, and has the end loop come by then.
func (d deadlines) set(l *Lease, at instant) {
	d.Set(l, at)
	d.loop.WakeBy(at)
}
