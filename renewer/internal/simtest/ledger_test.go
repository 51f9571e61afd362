package simtest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// ledger is what callers believed, and what was found wrong.
type ledger struct {
	mu         sync.Mutex
	beliefs    []*belief
	open       map[lot]*belief
	violations []violation
	wants      map[want]*waiting
	longest    time.Duration // that a process wanted a name
}

// lot is a lease as its holder knows it.
type lot struct {
	link  *link // of whose process
	name  string
	fence int64
}

// belief is a time in which a caller believed in its lease. Guarded by the
// ledger's mutex.
type belief struct {
	lot
	process  int
	manual   bool // without a heartbeat: it may expire in any weather
	from, to time.Duration
	over     bool
	by       string        // what ended it
	noticed  bool          // it was lost, and the operation was to have time to stop
	ran      time.Duration // when the operation returned
}

func (b *belief) String() string {
	return fmt.Sprintf("%s in process %d by token %d, from %v to %v (%s)", b.name, b.process,
		b.fence, b.from, b.to, b.by)
}

// mostViolations are kept: the first ones tell.
const mostViolations = 10

func (g *ledger) violate(k kind, format string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.violations) < mostViolations {
		g.violations = append(g.violations, violation{k, fmt.Sprintf(format, args...)})
	}
}

func (g *ledger) broken() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.violations) > 0
}

func (g *ledger) grants() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.beliefs)
}

// mostAhead is by how much a token may be ahead of the server's
// clock: by what is reserved, and by one for each grant in a microsecond.
const mostAhead = store.MaxReserved + 100

// begin enters a lease at the instant at which Acquire returned it.
func (g *ledger) begin(
	w *world, process int, from *link, l *renewer.Lease, manual bool,
) *belief {
	b := &belief{
		lot: lot{from, l.Name(), l.Fence()}, process: process, manual: manual, from: w.now(),
	}
	g.mu.Lock()
	if from.dead.Load() {
		b.over = true
		g.mu.Unlock()
		return b
	}
	g.beliefs = append(g.beliefs, b)
	var same []*belief
	for key, other := range g.open {
		if key.name == b.name && key.fence == b.fence {
			same = append(same, other)
		}
	}
	g.open[b.lot] = b
	g.mu.Unlock()
	for _, other := range same {
		if !w.server.disturbed(other) {
			g.violate(tokens, "two leases with one token: %v and %v", other, b)
		}
	}
	if ahead := b.fence - w.server.micros(b.from); ahead > mostAhead+w.server.backBy().Microseconds() {
		g.violate(tokens, "%v: its token is %d us ahead of the server's clock", b, ahead)
	}
	w.trace.note(b.from, "process %d has %q by token %d", process, b.name, b.fence)
	context.AfterFunc(l.Context(), func() {
		cause := context.Cause(l.Context())
		var lost *renewer.LostError
		switch {
		case errors.As(cause, &lost):
			g.lost(w, b.lot, lost)
		case !w.plan.observed: // nobody could tell of a loss after the caller's own cancellation
			g.end(w, b, w.now(), "context")
		}
	})
	return b
}

// end is the end of a belief, unless it is over.
func (g *ledger) end(w *world, b *belief, now time.Duration, by string) (first bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if b.over {
		return false
	}
	b.over, b.to, b.by = true, now, by
	delete(g.open, b.lot)
	w.trace.note(now, "process %d has no longer %q by token %d: %s", b.process, b.name, b.fence, by)
	return true
}

// kill ends all beliefs of a process.
func (g *ledger) kill(w *world, l *link) {
	g.mu.Lock()
	var all []*belief
	for _, b := range g.open {
		if b.link == l {
			all = append(all, b)
		}
	}
	g.mu.Unlock()
	for _, b := range all {
		g.end(w, b, w.now(), "death")
	}
}

// returned notes when the operation has ended.
func (g *ledger) returned(b *belief, now time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	b.ran = now
}

// lost ends a belief, and looks whether there was reason to, and whether it was
// told in time.
func (g *ledger) lost(w *world, key lot, e *renewer.LostError) {
	g.mu.Lock()
	b := g.open[key]
	g.mu.Unlock()
	if b == nil || !g.end(w, b, w.now(), e.Reason.String()) {
		return
	}
	w.tally.count(lostLease + event(e.Reason.String()))
	now := w.now()
	lapse := w.server.lapse(b, now)
	margin := e.Left
	g.mu.Lock()
	b.noticed = e.Reason != renewer.ReasonTaken
	g.mu.Unlock()
	switch e.Reason {
	case renewer.ReasonTaken:
		if w.server.disturbed(b) {
			return
		}
		g.violate(falseLoss, "%v: said to be another's, while it was believed in; the key lapses "+
			"after %v", b, lapse-now)
		return
	case renewer.ReasonExpired:
		if w.plan.weather == drizzle && !b.manual {
			g.violate(falseLoss, "%v: no heartbeat in time, in a drizzle: %v", b, e)
		}
		margin = w.keeperConfig().Margin
	}
	if e.Left < margin || lapse-now < e.Left {
		g.violate(lateNotice, "%v: told %v before its deadline, the margin is %v, the key lapses "+
			"after %v", b, e.Left, margin, lapse-now)
	}
}
