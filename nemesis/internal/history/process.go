package history

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Never is later than everything.
const Never = math.MaxInt64

// Process makes leases of what a process tells, as it comes.
type Process struct {
	Name   string
	open   map[int64]*Lease // by Op
	asked  map[int64]Event
	leases []*Lease
	calls  []call
	grants map[string]*grant   // by owner token
	recent map[string][]*grant // by name: the last few
	breaks []Event             // those of others' leases: Broke and Replaced
	pauses []Window
	killed int64
}

// NewProcess returns one that has told nothing yet.
func NewProcess(name string) *Process {
	return &Process{
		Name: name, killed: Never, open: make(map[int64]*Lease), asked: make(map[int64]Event),
		grants: make(map[string]*grant), recent: make(map[string][]*grant),
	}
}

// Lease is one grant and what became of it.
type Lease struct {
	Process string
	Name    string
	Fence   int64
	Asked   int64  // Acquire was called
	Begin   int64  // Acquire returned
	End     int64  // belief was over: see the package's documentation
	Until   int64  // the deadline that was published
	Freeing int64  // Release was called; Never if it was not
	Over    int64  // the context was seen to have ended; Never if it was not before Release
	Refused int64  // the store has answered that the lease is not the process's any more, or Never
	Valid   int64  // Valid was last seen true; 0 if it was not
	Beyond  int64  // the most by which the lease's own word exceeded the deadline of the time
	Late    int64  // how long after Until belief went on though nothing had paused the process
	Lost    string // why the context ended
	Broken  bool   // it ended because the lease was broken or replaced
	Handed  bool   // inside its process, without a grant of the store of its own
	grant   *grant
}

// call is an Acquire or a Release that has returned.
type call struct {
	what, name string
	from, to   int64
	allowed    time.Duration // that it may wait for others
}

// grant is what the store has granted to an owner token.
type grant struct {
	fence, top int64
	until      int64
	name       string
	renewed    int64 // when the last renewal that was confirmed had been sent; 0 if none was
	refused    int64 // when it was known that a renewal was refused; 0 if none was
}

// grantsKept of a name are looked at for what a lease stands on: the last, or one before if its
// answer was late.
const grantsKept = 64

// Take notes an event.
func (p *Process) Take(e Event) {
	switch e.Kind {
	case Ask:
		p.asked[e.Op] = e
	case Not:
		p.returned(e)
	case Got:
		p.begin(e, p.returned(e))
	case Granted:
		p.granted(e)
	case Extended:
		p.extended(e)
	case Refused:
		p.refused(e)
	case Broke, Replaced:
		p.breaks = append(p.breaks, e)
	case Paused:
		p.pauses = append(p.pauses, Window{From: e.At, To: e.Until})
	case Killed:
		p.killed = e.At
	case Valid, Over, Broken, Freeing, Freed:
		if l := p.open[e.Op]; l != nil {
			p.note(l, e)
		}
	}
}

// returned notes how long an acquire took, and returns what was asked.
func (p *Process) returned(e Event) Event {
	ask := p.asked[e.Op]
	delete(p.asked, e.Op)
	p.calls = append(p.calls, call{
		what: acquiring, name: ask.Name, from: ask.At, to: e.At, allowed: time.Duration(ask.Until),
	})
	return ask
}

func (p *Process) granted(e Event) {
	g := &grant{fence: e.Fence, top: e.Top, until: e.Until, name: e.Name}
	// granted again, as its answer was late
	if old := p.grants[e.Owner]; old != nil && old.fence == g.fence {
		g.until, g.top = max(old.until, g.until), max(old.top, g.top)
	}
	p.grants[e.Owner] = g
	p.recent[e.Name] = append(p.recent[e.Name], g)
	if recent := p.recent[e.Name]; len(recent) > grantsKept {
		p.recent[e.Name] = recent[1:]
	}
}

// extended moves the deadlines of the leases that stand on a grant. The engine takes no extension
// that comes after the deadline.
func (p *Process) extended(e Event) {
	g := p.grants[e.Owner]
	if g == nil {
		return
	}
	g.renewed = max(g.renewed, e.Sent)
	if e.At >= g.until {
		return
	}
	g.until = max(g.until, e.Until)
	for _, l := range p.open {
		if l.grant == g {
			l.Until = max(l.Until, g.until)
		}
	}
}

// refused notes that the leases that stand on a grant are to end.
func (p *Process) refused(e Event) {
	g := p.grants[e.Owner]
	if g == nil || g.refused != 0 {
		return
	}
	g.refused = e.At
	for _, l := range p.open {
		if l.grant == g {
			l.Refused = e.At
		}
	}
}

// begin opens a lease and finds the grant that it stands on.
func (p *Process) begin(e, ask Event) {
	l := &Lease{
		Process: p.Name, Name: ask.Name, Fence: e.Fence, Asked: ask.At, Begin: e.At,
		Freeing: Never, Over: Never, Until: Never, Refused: Never, Handed: true,
	}
	for _, g := range slices.Backward(p.recent[l.Name]) {
		if g.fence <= l.Fence && l.Fence <= g.top {
			l.Until, l.Handed, l.grant = g.until, g.fence != l.Fence, g
			if g.refused != 0 {
				l.Refused = max(g.refused, l.Begin)
			}
			break
		}
	}
	p.open[e.Op] = l
	p.leases = append(p.leases, l)
}

func (p *Process) note(l *Lease, e Event) {
	switch e.Kind {
	case Valid:
		l.Valid, l.Beyond = max(l.Valid, e.At), max(l.Beyond, e.Until-l.Until)
	case Over, Broken:
		l.Over, l.Lost, l.Broken = e.At, e.Err, e.Kind == Broken
	case Freeing:
		l.Freeing = e.At
	default:
		delete(p.open, e.Op)
		p.calls = append(p.calls, call{what: "Release", name: l.Name, from: l.Freeing, to: e.At})
	}
}

// HadSince are the names of which a lease began after an instant.
func (p *Process) HadSince(at int64) map[string]bool {
	names := make(map[string]bool)
	for _, l := range slices.Backward(p.leases) {
		if l.Begin < at {
			break
		}
		names[l.Name] = true
	}
	return names
}

// endOfBelief finds when belief in a lease was over.
func (p *Process) endOfBelief(l *Lease) {
	l.End = min(l.Freeing, l.Over, p.killed)
	if l.End <= l.Until {
		if l.Broken { // the name is kept for its operation, for as long as it would have been
			l.End = min(l.Freeing, l.Until, p.killed)
		}
		return
	}
	// The last words of one that was killed may have been that the context had ended.
	killed := l.End == p.killed && l.End != Never
	if killed || p.pausedFor(l.Until, l.End) > 0 {
		l.End = min(l.End, max(l.Until, l.Valid, l.Begin))
		return
	}
	l.Late = l.End - l.Until
}

// pausedFor is for how long the process was, within an interval. Pauses may be told twice, by the
// process and by its parent.
func (p *Process) pausedFor(from, to int64) (total int64) {
	for _, w := range slices.SortedFunc(slices.Values(p.pauses), func(a, b Window) int {
		return cmp.Compare(a.From, b.From)
	}) {
		begun, over := max(from, w.From), min(to, w.To)
		if over > begun {
			total, from = total+over-begun, over
		}
	}
	return total
}

// leases are those of all processes, in the order in which they began.
func leases(processes []*Process) []*Lease {
	var all []*Lease
	for _, p := range processes {
		for _, l := range p.leases {
			p.endOfBelief(l)
		}
		all = append(all, p.leases...)
	}
	slices.SortFunc(all, func(a, b *Lease) int { return cmp.Compare(a.Begin, b.Begin) })
	return all
}
