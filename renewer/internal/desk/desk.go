// Package desk says who in this process may have a name next. It knows names,
// callers and what the store last said of a name; it asks no store, keeps no
// time, and knows of a lease only that it differs from others (L). Data in,
// decisions out.
//
// A name that nobody here wants is not on the desk. Otherwise one caller is at
// its front, and every other waits behind, in order of arrival:
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
// mu is the desk's alone. It is the last lock taken: under it nothing is
// called, and what is sent has room. So a method is one step for all others,
// and any lock may be held around it. The engine holds the leases' lock around
// three steps only: HandOver, which changes two leases with the front; Granted,
// and Leave for a lease that is lost.
//
// Each step names the caller that it is about, and does nothing if that one is
// not where the step needs it: at the front to be granted, to hand over or to
// leave, in line to step out. Hence two steps that meet have an order, and the
// later one finds what the earlier has left:
//
//   - StepOut against HandOver, or against Leave that brings the waiter to the front: StepOut finds
//     it there. Leaving the front, it brings the next one; what it was handed is its caller's to
//     free (Out.Handed).
//   - Granted against Leave, when the lease ends in the same moment: the front is the next one by
//     then, and Granted changes nothing.
//   - Join against Leave: it finds the front before it, and is told; or none, and is the front.
//   - Join against CloseIfEmpty: it is counted in before, or refused.
//
// An answer is sent once to each who waits: by the step that takes it out of
// the line.
package desk

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/internal/timing"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// Desk is that of one keeper. Its methods may be called concurrently, with any
// lock held.
type Desk[L comparable] struct {
	mu     sync.Mutex
	fronts byName[front[L]]
	lines  byName[*line[L]] // of the names for which callers wait, here or elsewhere
	newest byName[*newestOf]
	inside int  // callers who are counted in
	places bool // some caller has asked from a place
	open   opening

	// waited is when one for which callers had waited was last granted, by the
	// name's hash: two names of one hash cost each other a place that need not
	// be.
	waited [256]timing.Instant
	told   [256]bool // whether FirstTime was called, by the name's hash
	seed   maphash.Seed
}

// byName is a map by names: two by their text, since Go finds that in half the
// time.
type byName[V any] struct{ locks, limits map[string]V }

func newByName[V any]() byName[V] { return byName[V]{make(map[string]V), make(map[string]V)} }

// of is where the name's text is looked up.
func (m *byName[V]) of(name contract.Name) map[string]V {
	if name.Limit {
		return m.limits
	}
	return m.locks
}

func (m *byName[V]) len() int { return len(m.locks) + len(m.limits) }

func (m *byName[V]) all(yield func(contract.Name, V) bool) {
	for text, v := range m.locks {
		if !yield(contract.Name{Text: text}, v) {
			return
		}
	}
	for text, v := range m.limits {
		if !yield(contract.Name{Text: text, Limit: true}, v) {
			return
		}
	}
}

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

// lately is for how long a name that was waited for is expected to be so again.
// A store may hear of turns for about as long after the last one has waited.
const lately = 2 * time.Second

// New returns a desk on which nobody wants anything.
func New[L comparable]() *Desk[L] {
	return &Desk[L]{
		fronts: newByName[front[L]](), lines: newByName[*line[L]](), newest: newByName[*newestOf](),
		seed: maphash.MakeSeed(),
	}
}

// Place is from where the store is asked, and by whom: the store grants what
// was first claimed from it, so that a caller who asks from it later has that
// claim, and one who leaves it to others frees nothing. Of a limit the claims
// from one place differ.
type Place struct {
	Number uint64 // 0: none
	Owner  [store.OwnerLen]byte
	// Asks means that what is claimed is not granted, but kept for a claim that
	// is sent then: nobody goes on from a place of the other kind.
	Asks bool
	// Sent is the instant before the first claim: no store granted it earlier.
	Sent timing.Instant
}

// Place is the place from which the front asks the store at an instant: that of
// its line, if it is of the front's kind; else own, from which it has asked
// before, or a new one with own's owner token. It is none if nobody waits here,
// and lately nobody did; but the first of a desk has one even so, by which the
// store hears that places are wanted. Wake-ups until now are the question's.
// One who does not stand in line has none. left is a place of the other kind,
// which is given up, and inLine is how many wait here.
func (d *Desk[L]) Place(
	name contract.Name, own Place, now timing.Instant, stands bool,
) (place Place, left Left, inLine int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.lines.of(name)[name.Text]
	if q != nil {
		inLine = q.length
	}
	switch {
	case !stands, q == nil && d.places && !d.lately(name, now):
		return Place{}, left, inLine
	case q != nil && q.place.Number != 0 && (name.Limit || q.place.Asks == own.Asks):
		own = q.place
	case own.Number == 0:
		own.Number, own.Sent = lastPlace.Add(1), now
	}
	if q != nil {
		if q.place != own && q.queued {
			left = q.left()
			q.queued, q.unsettled = false, 0
		}
		q.place = own
		q.watch.drain()
	}
	d.places = true
	return own, left, inLine
}

// lastPlace is the number of the newest place of this process.
var lastPlace atomic.Uint64

// Answer is that the name is not the front's.
type Answer struct {
	Seen   Seen
	Try    bool  // the front does not wait
	Place  Place // from which it asked
	Queued bool  // the store may have that in its line
}

// Refused notes an answer to the front. Those behind it who do not wait hear of
// it. The watch is to be begun, by Began; nil if that has been done, or need
// not be.
func (d *Desk[L]) Refused(name contract.Name, l L, a Answer) *Watch {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.lines.of(name)[name.Text]
	if d.fronts.of(name)[name.Text].l != l || q == nil && a.Try {
		return nil // nobody waits
	}
	if q == nil {
		q = d.need(name)
	}
	q.seen = a.Seen
	if !a.Try {
		// The store may have the place in its line if this answer says so; if a
		// front that has left asked from it and got no answer, since that
		// question may arrive yet; or if this question got none either, and the
		// place may have been there before.
		q.place = a.Place
		q.queued = a.Queued || !name.Limit && q.unsettled != 0 || a.Seen.Err != nil && q.queued
	}
	RefuseAll(q.removeTries(), a.Seen)
	if a.Try || a.Seen.Err != nil || !q.watch.begin() {
		return nil
	}
	return &q.watch
}

// Granted is what follows from a grant.
type Granted[L comparable] struct {
	// Refused are callers who do not wait until the name is free: see
	// RefuseAll.
	Refused []*Waiter[L]
	// Left ends what the store does for those who waited, of whom there are
	// none any more.
	Left Left
	// Waited means that callers wait, or did.
	Waited bool
	// Unsettled is when a front that has left asked last and was not answered;
	// 0 if none did.
	Unsettled timing.Instant
}

// Granted notes that a caller has the name, or a slot of it, and counts it out:
// its lease is on the books. place is from where it asked: another one, of
// those behind, is to be given up.
func (d *Desk[L]) Granted(
	name contract.Name, l L, slot bool, place uint64, now timing.Instant,
) (g Granted[L]) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inside--
	f, q := d.fronts.of(name)[name.Text], d.lines.of(name)[name.Text]
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
	d.fronts.of(name)[name.Text] = f
	if q != nil {
		*d.granted(name) = now
		if q.queued && q.place.Number != place {
			g.Unsettled, g.Left = 0, q.left()
		}
		q.forget()
		q.had = true
		g.Refused = q.removeTries()
		if q.first == nil {
			delete(d.lines.of(name), name.Text)
			g.Left.Stop = q.watch.end()
		}
	}
	return g
}

// HandOver puts the first who waits at the front, as the one who has the name,
// in place of l who has it; nil if there is none to whom it may go. It hears of
// that by Waiter.Tell, once what it is handed is ready. left is to be ended
// then.
func (d *Desk[L]) HandOver(name contract.Name, l L) (w *Waiter[L], left Left) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.lines.of(name)[name.Text]
	f := d.fronts.of(name)[name.Text]
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

// GivesBack notes that the front gives the name back. It does nothing for one
// who is not there.
func (d *Desk[L]) GivesBack(name contract.Name, l L) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f, there := d.fronts.of(name)[name.Text]; there && f.l == l {
		f.has = back
		d.fronts.of(name)[name.Text] = f
	}
}

// Left is what is to be ended for a name of which nobody here waits any more.
type Left struct {
	Stop  func() // the watch; nil if there is none. Not under a lock
	Place Place  // that the store may have in its line; none otherwise
	// Unsettled is when Place was asked from last without an answer; 0 if it
	// was not.
	Unsettled timing.Instant
	// Passed means that what a front has claimed from its place, without an
	// answer, is for those behind it to ask for, or goes with Place.
	Passed bool
}

// End ends the watch.
func (l Left) End() {
	if l.Stop != nil {
		l.Stop()
	}
}

// Leave takes a caller from the front, where the first who waits comes instead
// and is told; it goes on from the place of the one before. It does nothing for
// one who is not there.
func (d *Desk[L]) Leave(name contract.Name, l L) Left {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.leave(name, l)
}

// GiveUp is Leave for a front that has asked from a place, at an instant, and
// was not answered: those behind it keep the place, and know of that.
func (d *Desk[L]) GiveUp(name contract.Name, l L, place Place, asked timing.Instant) Left {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, there := d.fronts.of(name)[name.Text]
	passes := place.Number != 0 && asked != 0 && there && f.l == l && f.has == asks
	if passes {
		q := d.need(name)
		q.place, q.queued, q.unsettled = place, true, asked
	}
	left := d.leave(name, l)
	left.Passed = passes
	return left
}

// Out is what has become of one who does not wait any more.
type Out[L comparable] struct {
	Handed bool // it has been handed what its caller has to free
	Waited bool // it stood in line until now, and hears Last
	Last   Last[L]
	Left   Left
}

// StepOut takes one who waits out of the line, or from the front if it has come
// there meanwhile.
func (d *Desk[L]) StepOut(w *Waiter[L]) (out Out[L]) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if w.Handed {
		return Out[L]{Handed: true}
	}
	if out.Waited = w.queued; out.Waited {
		out.Last = d.last(w.name)
		d.lines.of(w.name)[w.name.Text].remove(w)
	}
	out.Left = d.leave(w.name, w.L)
	return out
}

func (d *Desk[L]) leave(name contract.Name, l L) (left Left) {
	if f, there := d.fronts.of(name)[name.Text]; !there || f.l != l {
		return left
	}
	q := d.lines.of(name)[name.Text]
	if q != nil && q.first != nil {
		d.advance(name, asks).Tell()
		return left
	}
	delete(d.fronts.of(name), name.Text)
	if q == nil {
		return left
	}
	delete(d.lines.of(name), name.Text)
	if q.queued {
		left = q.left()
	}
	left.Stop = q.watch.end()
	return left
}

// advance puts the first who waits at the front.
func (d *Desk[L]) advance(name contract.Name, as has) *Waiter[L] {
	q := d.lines.of(name)[name.Text]
	w := q.first
	q.remove(w)
	w.After = d.fronts.of(name)[name.Text].l
	d.fronts.of(name)[name.Text] = front[L]{w.L, as, w.rank}
	return w
}

func (d *Desk[L]) need(name contract.Name) *line[L] {
	q := d.lines.of(name)[name.Text]
	if q == nil {
		q = new(line[L])
		d.lines.of(name)[name.Text] = q
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

// FirstTime reports whether it is called for a name for the first time, for
// what is said once.
func (d *Desk[L]) FirstTime(name contract.Name) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	told := &d.told[d.hash(name)]
	first := !*told
	*told = true
	return first
}
