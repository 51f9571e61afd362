// Package desk says who in this process may have a name next. It knows names, callers and what the
// store last said of a name; it asks no store, keeps no time, and knows of a lease only that it
// differs from others (L). Data in, decisions out.
//
// A name that nobody here wants is not on the desk. Otherwise one caller is at its front, and every
// other waits behind, in order of arrival:
//
//	         Join                 Granted              GivesBack               Leave
//	nobody ───────▶ front, asks ──────────▶ front, has ──────────▶ front, gives back ──▶ nobody
//	                  ▲      │ Leave, GiveUp    │ HandOver                     │
//	                  │      ▼                  ▼                              │
//	                  └── the first who waits ── as the one who has it         │
//	                  ▲                                                        │
//	                  └──────────────────────── if any waits ◀─────────────────┘
//
//	Of a limit the front leaves as soon as it has a slot (Granted), as there may be more; and one
//	who comes while nobody waits asks aside: it is not on the desk at all, but is counted in.
//
// # Why no caller is forgotten, and no two are at the front
//
// mu is the desk's alone. It is the last lock taken: under it nothing is called, and what is sent
// has room. So a method is one step for all others, and any lock may be held around it. Whoever
// calls holds the lease's lock around three steps only: HandOver, which changes two leases with the
// front; Granted, and Leave for a lease that is lost.
//
// Each step names the caller that it is about, and does nothing if that one is not where the step
// needs it: at the front to be granted, to hand over or to leave, in line to step out. Hence two
// steps that meet have an order, and the later one finds what the earlier has left:
//
//   - StepOut against HandOver, or against Leave that brings the waiter to the front: StepOut finds
//     it there. Leaving the front, it brings the next one; what it was handed is its caller's to
//     free (Out.Handed).
//   - Granted against Leave, when the lease ends in the same moment: the front is the next one by
//     then, and Granted changes nothing.
//   - Join against Leave: it finds the front before it, and is told; or none, and is the front.
//   - Join against CloseIfEmpty: it is counted in before, or refused.
//
// An answer is sent once to each who waits: by the step that takes it out of the line.
package desk

import (
	"hash/maphash"
	"maps"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/internal/timing"
)

// Desk is that of one keeper. Its methods may be called concurrently, with any lock held.
type Desk[L comparable] struct {
	mu     sync.Mutex
	fronts map[contract.Name]front[L]
	lines  map[contract.Name]*line[L] // of the names for which callers wait, here or elsewhere
	newest map[contract.Name]*newestOf
	inside int  // callers who are counted in
	places bool // some caller has asked from a place
	open   opening

	// waited is when one for which callers had waited was last granted, by the name's hash: two
	// names of one hash cost each other a place that need not be.
	waited [256]timing.Instant
	told   [256]bool // whether FirstTime was called, by the name's hash
	seed   maphash.Seed
}

type opening uint8

const (
	forAll opening = iota
	forNested
	forNone
)

// front is who is at the front of a name.
type front[L comparable] struct {
	l    L
	has  has
	rank int64
}

type has uint8

const (
	asks  has = iota // the store, or is about to
	holds            // has the name
	back             // gives it back: it may be free in a moment
)

// lately is for how long a name that was waited for is expected to be so again. A store may hear of
// turns for about as long after the last one has waited.
const lately = 2 * time.Second

// New returns a desk on which nobody wants anything.
func New[L comparable]() *Desk[L] {
	return &Desk[L]{
		fronts: make(map[contract.Name]front[L]), lines: make(map[contract.Name]*line[L]),
		newest: make(map[contract.Name]*newestOf), seed: maphash.MakeSeed(),
	}
}

// Wish is what a caller wants.
type Wish struct {
	Now     timing.Instant // when it began
	Try     bool           // it does not wait until the name is free
	Limit   bool           // a slot of a limit
	Refused bool           // there was no slot for it, so that it asks in its turn
	Nested  bool           // work that holds another name asks
	Inside  bool           // it is counted in already
	Front   bool           // it comes only if it is at the front
	Trouble bool           // the store may be away: it does not ask aside
	Away    bool           // the store is away, and it does not wait for that
	Most    int            // callers in line; 0 any
	Plain   bool           // it may be handed the lease of another
	MaxHold time.Duration  // its own, for a hand-over
	LimitTo func() int     // of a limit: how many may have it, by the caller's own word
	Rank    int64          // how new it is; 0 if that does not matter
	Newest  *Newest        // none but the newest of its kind is to wait; nil otherwise
}

// Seat is where a caller is. Unless it is refused it is counted in, until Granted or Out.
type Seat[L comparable] struct {
	Turn   Turn
	Waiter *Waiter[L] // of one who waits
	Last   Last[L]    // what is known of the name, for one who is not at the front
}

// Turn is what a caller is to do.
type Turn uint8

const (
	Ask       Turn = iota // it is at the front
	Aside                 // ask for a slot, as nobody waits for one
	Wait                  // for Waiter.Answer
	Closed                // the desk is, for newcomers
	Away                  // the store is, and others wait for it already
	Taken                 // for one that does not wait, by Seat.Last
	Full                  // the line is
	Behind                // another is at the front, and Wish.Front
	Outranked             // a newer one has the name, or waits for it
)

// Last is what is known of a name to those who are not at its front. It is Known if that is an
// answer to one who does not wait: it is none while the front has not heard from the store, nor
// while it gives the name back. Of a limit Seen is then what a front before has heard, if any has.
type Last[L comparable] struct {
	Known bool
	Has   L    // who has the name, here; zero if nobody does
	Seen  Seen // what the store has said, if nobody here has it
}

// Join gives a caller its turn.
func (d *Desk[L]) Join(name contract.Name, l L, w Wish) Seat[L] {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open > forAll && !(w.Nested && d.open == forNested) {
		return Seat[L]{Turn: Closed}
	}
	if w.Newest != nil {
		if d.outranked(name, w.Rank) {
			return Seat[L]{Turn: Outranked, Last: d.last(name)}
		}
		d.oust(name, w.Newest, w.Rank, w.Now)
	}
	_, taken := d.fronts[name]
	switch {
	case taken && w.Front:
		return Seat[L]{Turn: Behind}
	case taken && w.Away:
		return Seat[L]{Turn: Away}
	case taken:
		return d.behind(name, l, w)
	}
	d.countIn(w)
	if w.Limit && !w.Refused && !w.Trouble && !d.lately(name, w.Now) {
		return Seat[L]{Turn: Aside}
	}
	d.fronts[name] = front[L]{l: l, rank: w.Rank}
	return Seat[L]{Turn: Ask}
}

// behind has a caller wait.
func (d *Desk[L]) behind(name contract.Name, l L, w Wish) Seat[L] {
	s := Seat[L]{Last: d.last(name)}
	if w.Try && s.Last.Known {
		s.Turn = Taken
		return s
	}
	q := d.need(name)
	switch {
	case w.Most > 0 && !w.Try && w.Newest == nil && q.length >= w.Most:
		s.Turn = Full
	default:
		d.countIn(w)
		s.Turn, s.Waiter = Wait, &Waiter[L]{
			L: l, Answer: make(chan *Seen, 1), MaxHold: w.MaxHold, Limit: w.LimitTo, name: name,
			try: w.Try, plain: w.Plain, rank: w.Rank,
		}
		q.push(s.Waiter)
	}
	return s
}

// Place is the place from which the front asks the store at an instant, own being the one from
// which it has asked before: that of those who wait here, 0 if nobody does and lately nobody did.
// The first of a desk has one too, by which the store hears that places are wanted. Wake-ups until
// now are the question's.
func (d *Desk[L]) Place(name contract.Name, own uint64, now timing.Instant) uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.lines[name]
	switch {
	case q == nil && d.places && !d.lately(name, now):
		return 0
	case q != nil && q.place != 0:
		own = q.place
	case own == 0:
		own = lastPlace.Add(1)
	}
	if q != nil {
		q.place = own
		q.watch.drain()
	}
	d.places = true
	return own
}

// InLine returns how many wait behind the front of a name.
func (d *Desk[L]) InLine(name contract.Name) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if q := d.lines[name]; q != nil {
		return q.length
	}
	return 0
}

// lastPlace is the number of the newest place of this process.
var lastPlace atomic.Uint64

// Answer is that the name is not the front's.
type Answer struct {
	Seen   Seen
	Try    bool   // the front does not wait
	Place  uint64 // from which it asked
	Queued bool   // the store may have that in its line
}

// Refused notes an answer to the front. Those behind it who do not wait hear of it. The watch is to
// be begun, by Began; nil if that has been done, or need not be.
func (d *Desk[L]) Refused(name contract.Name, l L, a Answer) *Watch {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.lines[name]
	if d.fronts[name].l != l || q == nil && a.Try {
		return nil // nobody waits
	}
	if q == nil {
		q = d.need(name)
	}
	q.seen = a.Seen
	if !a.Try {
		// what was asked from it before and not answered now has not left the line
		q.place, q.queued = a.Place, a.Queued || a.Seen.Err != nil && q.queued
	}
	RefuseAll(q.removeTries(), a.Seen)
	if a.Try || a.Seen.Err != nil || !q.watch.begin() {
		return nil
	}
	return &q.watch
}

// Granted is what follows from a grant.
type Granted[L comparable] struct {
	// Refused are callers who do not wait until the name is free: see RefuseAll.
	Refused []*Waiter[L]
	// Left ends what the store does for those who waited, of whom there are none any more.
	Left Left
	// Waited means that callers wait, or did.
	Waited bool
	// Unsettled is when a front that has left asked last and was not answered; 0 if none did.
	Unsettled timing.Instant
}

// Granted notes that a caller has the name, or a slot of it, and counts it out: its lease is on the
// books.
func (d *Desk[L]) Granted(name contract.Name, l L, slot bool, now timing.Instant) (g Granted[L]) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inside--
	f, q := d.fronts[name], d.lines[name]
	if f.l != l { // it asked aside
		g.Waited = q != nil
		return g
	}
	if q != nil {
		g.Waited, g.Unsettled = true, q.unsettled
	}
	if slot {
		if q != nil {
			d.gaveSlot(name, q, now)
		}
		g.Left = d.leave(name, l)
		return g
	}
	f.has = holds
	d.fronts[name] = f
	if q != nil {
		*d.granted(name) = now
		q.forget()
		g.Refused = q.removeTries()
		if q.first == nil {
			delete(d.lines, name)
			g.Left.Stop = q.watch.end()
		}
	}
	return g
}

// HandOver puts the first who waits at the front, as the one who has the name, in place of l who
// has it; nil if there is none to whom it may go. It hears of that by Waiter.Tell, once what it is
// handed is ready. left is to be ended then.
func (d *Desk[L]) HandOver(name contract.Name, l L) (w *Waiter[L], left Left) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.lines[name]
	f := d.fronts[name]
	if f.l != l || f.has != holds || q == nil || q.first == nil || !q.first.plain {
		return nil, left
	}
	w = d.advance(name, holds)
	w.Handed = true
	if q.first == nil { // the next front that has to wait watches again
		left.Stop = q.watch.end()
	}
	return w, left
}

// GivesBack notes that the front gives the name back. It does nothing for one who is not there.
func (d *Desk[L]) GivesBack(name contract.Name, l L) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f, there := d.fronts[name]; there && f.l == l {
		f.has = back
		d.fronts[name] = f
	}
}

// Swap puts next at the front instead of l, if that is there.
func (d *Desk[L]) Swap(name contract.Name, l, next L) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f, there := d.fronts[name]; there && f.l == l {
		f.l = next
		d.fronts[name] = f
	}
}

// Left is what is to be ended for a name of which nobody here waits any more.
type Left struct {
	Stop  func() // the watch; nil if there is none. Not under a lock
	Place uint64 // that the store may have in its line; 0 if none
}

// End ends the watch.
func (l Left) End() {
	if l.Stop != nil {
		l.Stop()
	}
}

// Leave takes a caller from the front, where the first who waits comes instead and is told; it goes
// on from the place of the one before. It does nothing for one who is not there.
func (d *Desk[L]) Leave(name contract.Name, l L) Left {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.leave(name, l)
}

// GiveUp is Leave for a front that has asked from a place, at an instant, and was not answered:
// those behind it keep the place, and know of that.
func (d *Desk[L]) GiveUp(name contract.Name, l L, place uint64, asked timing.Instant) Left {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f, there := d.fronts[name]; place != 0 && asked != 0 && there && f.l == l && f.has == asks {
		q := d.need(name)
		q.place, q.queued, q.unsettled = place, true, asked
	}
	return d.leave(name, l)
}

// Out is what has become of one who does not wait any more.
type Out[L comparable] struct {
	Handed bool // it has been handed what its caller has to free
	Waited bool // it stood in line until now, and hears Last
	Last   Last[L]
	Left   Left
}

// StepOut takes one who waits out of the line, or from the front if it has come there meanwhile.
func (d *Desk[L]) StepOut(w *Waiter[L]) (out Out[L]) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if w.Handed {
		return Out[L]{Handed: true}
	}
	if out.Waited = w.queued; out.Waited {
		out.Last = d.last(w.name)
		d.lines[w.name].remove(w)
	}
	out.Left = d.leave(w.name, w.L)
	return out
}

// Out counts a caller out, and reports whether the desk is not open to all, and nobody is inside any
// more.
func (d *Desk[L]) Out() (empty bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inside--
	return d.open > forAll && d.inside == 0
}

// Drain refuses newcomers, but for nested ones.
func (d *Desk[L]) Drain() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open = max(d.open, forNested)
}

// Close refuses all newcomers.
func (d *Desk[L]) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open = forNone
}

// CloseIfEmpty is Close if nobody is inside, and reports whether that is so.
func (d *Desk[L]) CloseIfEmpty() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.inside > 0 {
		return false
	}
	d.open = forNone
	return true
}

// Inside returns how many callers are counted in.
func (d *Desk[L]) Inside() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.inside
}

// Names returns how many names have a front, or callers of whom the newest is to wait.
func (d *Desk[L]) Names() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := len(d.fronts)
	for name := range d.newest {
		if _, there := d.fronts[name]; !there {
			n++
		}
	}
	return n
}

// Last returns what is known of a name.
func (d *Desk[L]) Last(name contract.Name) Last[L] {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last(name)
}

// Waiting counts those who wait for l to give its name back, or for one more slot beside it.
func (d *Desk[L]) Waiting(name contract.Name, l L) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, there := d.fronts[name]
	if !there {
		return 0
	}
	if f.l != l { // l has a slot, and the front asks for one more
		n++
	}
	if q := d.lines[name]; q != nil {
		n += q.length
	}
	return n
}

// AskAtFronts returns those who are at a front without the name.
func (d *Desk[L]) AskAtFronts() (all []L) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range d.fronts {
		if f.has == asks {
			all = append(all, f.l)
		}
	}
	return all
}

// Asking returns those who are at a front without the name, and those who wait, name by name in
// order. Others have the desk for a moment after each chunk: who comes or goes meanwhile may be
// among them.
func (d *Desk[L]) Asking(chunk int) (all []L) {
	d.mu.Lock()
	defer d.mu.Unlock()
	looked := 0
	breathe := func() {
		looked++
		if looked%chunk == 0 {
			d.mu.Unlock()
			runtime.Gosched()
			d.mu.Lock()
		}
	}
	for name, f := range maps.All(d.fronts) { // which may change meanwhile, as a map may
		if f.has == asks {
			all = append(all, f.l)
		}
		breathe()
		if q := d.lines[name]; q != nil {
			for w := q.first; w != nil; w = q.after(w) {
				all = append(all, w.L)
				breathe()
			}
		}
	}
	return all
}

func (d *Desk[L]) countIn(w Wish) {
	if !w.Inside {
		d.inside++
	}
}

func (d *Desk[L]) last(name contract.Name) (last Last[L]) {
	f, there := d.fronts[name]
	if there && f.has != asks {
		return Last[L]{Known: f.has == holds, Has: f.l}
	}
	switch q := d.lines[name]; {
	case q == nil:
	case q.seen.Known:
		return Last[L]{Known: true, Seen: q.seen}
	default:
		last.Seen = q.full
	}
	return last
}

func (d *Desk[L]) leave(name contract.Name, l L) (left Left) {
	if f, there := d.fronts[name]; !there || f.l != l {
		return left
	}
	q := d.lines[name]
	if q != nil && q.first != nil {
		d.advance(name, asks).Tell()
		return left
	}
	delete(d.fronts, name)
	if q == nil {
		return left
	}
	delete(d.lines, name)
	if q.queued {
		left.Place = q.place
	}
	left.Stop = q.watch.end()
	return left
}

// advance puts the first who waits at the front.
func (d *Desk[L]) advance(name contract.Name, as has) *Waiter[L] {
	q := d.lines[name]
	w := q.first
	q.remove(w)
	w.After = d.fronts[name].l
	d.fronts[name] = front[L]{w.L, as, w.rank}
	return w
}

func (d *Desk[L]) need(name contract.Name) *line[L] {
	q := d.lines[name]
	if q == nil {
		q = new(line[L])
		d.lines[name] = q
	}
	return q
}

// lately reports whether the name was waited for until a moment ago.
func (d *Desk[L]) lately(name contract.Name, now timing.Instant) bool {
	at := *d.granted(name)
	return at != 0 && now.Sub(at) < lately
}

func (d *Desk[L]) granted(name contract.Name) *timing.Instant { return &d.waited[d.hash(name)] }

func (d *Desk[L]) hash(name contract.Name) int {
	return int(maphash.String(d.seed, name.Text) % uint64(len(d.waited)))
}

// FirstTime reports whether it is called for a name for the first time, for what is said once.
func (d *Desk[L]) FirstTime(name contract.Name) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	told := &d.told[d.hash(name)]
	first := !*told
	*told = true
	return first
}
