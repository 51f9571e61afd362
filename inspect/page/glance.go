package page

import (
	"html/template"
	"time"
)

// glance is the first row of the list: is anything bad? list.js words it in the
// same way.
type glance struct {
	Held          string
	Waiting, Who  string
	Worst, Oldest glanceLock
	Lost, LostIn  string
	AnyLost       bool
	Store, Took   string
	Away          bool
}

// glanceLock is the lock that is the worst in one respect.
type glanceLock struct {
	Query      template.URL
	Name, Note string
	Odd        bool
}

// unknown stands in place of what the store has not told.
const unknown = "\u2013"

// unknownGlance is that of a store that has not answered; f is why, if it ever
// will.
func unknownGlance(f *fault) glance {
	if f != nil {
		return glance{Held: unknown, Waiting: unknown, Lost: unknown, Store: "no data", Away: true}
	}
	return glance{
		Held: unknown, Waiting: unknown, Lost: unknown, Store: unknown, Took: "Reading the store…",
	}
}

// glance looks at all rows.
func (n *list) glance() glance {
	var held, places, tasks, callers int
	var worst, oldest *row
	for _, r := range n.rows {
		if r.slots > 0 {
			held++
		}
		places, tasks, callers = places+r.places, tasks+r.tasks, callers+r.callers
		if w := r.waiting(); w > 0 && (worst == nil || w > worst.waiting() ||
			w == worst.waiting() && r.label < worst.label) {
			worst = &r
		}
		if r.slots > 0 && (oldest == nil || r.since < oldest.since) {
			oldest = &r
		}
	}
	g := glance{
		Held: thousands(held), Waiting: thousands(places + tasks + callers),
		Who:  whoWait(places, tasks, callers),
		Lost: thousands(n.told.Lost), AnyLost: n.told.Lost > 0,
		LostIn: n.told.in(n.at), Store: "answers",
		Took: "read in " + thousands(int(n.took.Milliseconds())) + " ms",
	}
	if n.cut { // all of this is of those that are listed
		g.Held += "+"
	}
	if worst != nil {
		g.Worst = worst.glance(thousands(worst.waiting()) + " waiting")
	}
	if oldest != nil {
		g.Oldest = oldest.glance(spell(n.at.Sub(time.UnixMilli(oldest.since))))
	}
	return g
}

func (r *row) glance(note string) glanceLock {
	query := template.URL(r.query()) //nolint:gosec // of letters that need no escape
	return glanceLock{query, r.label, note, r.odd}
}

// in says since when leases that were lost are counted, and how many of them
// were broken.
func (t *told) in(now time.Time) string {
	s := "in the last hour"
	if since := now.Sub(time.UnixMilli(t.Began)); since < pastFor {
		s = "in the " + spell(since) + " that this page has looked"
	}
	if t.Broken > 0 {
		s = thousands(t.Broken) + " broken, " + s
	}
	return s
}

// whoWait says who they are that wait, as live.js does.
func whoWait(places, tasks, callers int) string {
	s := ""
	for _, part := range []struct {
		n         int
		one, many string
	}{
		{places, "process", "processes"},
		{tasks, "task", "tasks"},
		{callers, "caller in the holder\u2019s process", "callers in the holder\u2019s process"},
	} {
		if part.n == 0 {
			continue
		}
		if s != "" {
			s += ", "
		}
		s += thousands(part.n) + " "
		if part.n == 1 {
			s += part.one
		} else {
			s += part.many
		}
	}
	return s
}
