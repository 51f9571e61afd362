package history

import (
	"math"
	"slices"
)

// Never is later than everything.
const Never = math.MaxInt64

// Lease is one grant and what became of it.
type Lease struct {
	Process string
	Name    string
	Fence   int64
	Asked   int64 // Acquire was called
	Begin   int64 // Acquire returned
	End     int64 // belief was over: see the package's documentation
	Until   int64 // the deadline that was published
	Freeing int64 // Release was called; Never if it was not
	Freed   int64 // Release returned; Never if it did not
	Over    int64 // the context was seen to have ended; Never if it was not before Release
	Valid   int64 // Valid was last seen true; 0 if it was not
	Err     string
	Lost    string // why the context ended
	Handed  bool   // inside its process, without a grant of the store of its own
	Killed  bool   // with its process
	Late    int64  // how long after Until belief went on though nothing had paused the process
}

// clean tells whether the lease ended by a release of which the process knows that it succeeded.
func (l *Lease) clean() bool { return l.Over == Never && l.Freed != Never && l.Err == "" }

// grant is what the store has granted to an owner token.
type grant struct {
	owner      string
	name       string
	fence, top int64
	until      int64
}

// reader makes leases of a process's events.
type reader struct {
	process string
	open    map[int64]*Lease
	asked   map[int64]Event
	leases  []*Lease
	grants  map[string]*grant // by owner token
	byName  map[string][]*grant
	held    map[*Lease]*grant
	pauses  []Window
	killed  int64
}

// Leases makes the leases of what processes have told, in the order in which they began.
func Leases(processes []Process) []*Lease {
	var all []*Lease
	for _, p := range processes {
		r := reader{
			process: p.Name, open: make(map[int64]*Lease), asked: make(map[int64]Event), killed: Never,
			grants: make(map[string]*grant), byName: make(map[string][]*grant), held: make(map[*Lease]*grant),
		}
		for _, e := range p.Events {
			r.read(e)
		}
		for _, l := range r.leases {
			r.settle(l)
		}
		all = append(all, r.leases...)
	}
	slices.SortFunc(all, func(a, b *Lease) int { return int(min(1, max(-1, a.Begin-b.Begin))) })
	return all
}

func (r *reader) read(e Event) {
	switch e.Kind {
	case Ask:
		r.asked[e.Op] = e
	case Not:
		delete(r.asked, e.Op)
	case Got:
		r.begin(e)
	case Granted:
		g := &grant{owner: e.Owner, name: e.Name, fence: e.Fence, top: e.Top, until: e.Until}
		if old := r.grants[e.Owner]; old != nil && old.fence == g.fence { // granted again, as its answer was late
			g.until, g.top = max(old.until, g.until), max(old.top, g.top)
		}
		r.grants[e.Owner] = g
		r.byName[e.Name] = append(r.byName[e.Name], g)
	case Extended:
		// The engine takes no extension that comes after the deadline.
		if g := r.grants[e.Owner]; g != nil && e.At < g.until {
			g.until = max(g.until, e.Until)
			r.published(g)
		}
	case Paused:
		r.pauses = append(r.pauses, Window{From: e.At, To: e.Until})
	case Killed:
		r.killed = e.At
	case Valid, Over, Freeing, Freed:
		r.note(e)
	case Figures:
	}
}

// begin opens a lease and finds the grant that it stands on.
func (r *reader) begin(e Event) {
	ask := r.asked[e.Op]
	delete(r.asked, e.Op)
	l := &Lease{
		Process: r.process, Name: ask.Name, Fence: e.Fence, Asked: ask.At, Begin: e.At,
		Freeing: Never, Freed: Never, Over: Never, Until: Never, Handed: true,
	}
	grants := r.byName[l.Name]
	for _, g := range slices.Backward(grants) {
		if g.fence <= l.Fence && l.Fence <= g.top {
			l.Until, l.Handed = g.until, g.fence != l.Fence
			r.held[l] = g
			break
		}
	}
	r.open[e.Op] = l
	r.leases = append(r.leases, l)
}

// published moves the deadlines of the leases that stand on a grant.
func (r *reader) published(g *grant) {
	for _, l := range r.open {
		if r.held[l] == g {
			l.Until = max(l.Until, g.until)
		}
	}
}

func (r *reader) note(e Event) {
	l := r.open[e.Op]
	if l == nil {
		return
	}
	switch e.Kind {
	case Valid:
		l.Valid = max(l.Valid, e.At)
	case Over:
		l.Over, l.Lost = e.At, e.Err
	case Freeing:
		l.Freeing = e.At
	default:
		l.Freed, l.Err = e.At, e.Err
		delete(r.open, e.Op)
	}
}

// settle finds the end of belief.
func (r *reader) settle(l *Lease) {
	l.End = min(l.Freeing, l.Over, r.killed)
	l.Killed = l.End == r.killed && l.End != Never
	if l.End <= l.Until {
		return
	}
	published := min(l.End, max(l.Until, l.Valid, l.Begin))
	if l.Killed {
		l.End = published // its last words may have been that the context had ended
		return
	}
	for _, p := range r.pauses {
		if p.touches(l.Until, l.End) {
			l.End = published
			return
		}
	}
	l.Late = l.End - l.Until
}
