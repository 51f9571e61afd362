package desk

import (
	"time"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/internal/timing"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// line is that of one name: those who wait behind its front, and what they
// share. It is made for the first who waits, or when the front has to wait for
// another process, and goes when its name has no front any more.
type line[L comparable] struct {
	first, last *Waiter[L]
	length      int
	pushed      uint64 // waiters, ever

	seen  Seen  // what the front last learned of the name
	watch Watch // on behalf of the front
	// place is the one from which the store is asked: it keeps its rank when a
	// front leaves. It is none until the store is asked for the first time
	// since the name was last ours.
	place  Place
	queued bool // the store may have it in its line
	had    bool // a caller of this process has had the name since the line began
	slots       // of a limit
	// unsettled is when a front that has left asked from it last and was not
	// answered: that may put it there.
	unsettled timing.Instant
}

// Seen is what was last seen of a lock that is not ours.
type Seen struct {
	Known   bool
	Holder  store.Holder
	HeldFor time.Duration  // by when it was seen
	Since   timing.Instant // when it got the lock; 0 if that is not known
	TTL     time.Duration
	Held    int   // how many have it; 0 for a lock
	Foreign bool  // another program has written its key
	Err     error // the store could not be asked
}

// HeldAt is how long the holder has had the lock at an instant, if it still has
// it then; 0 if that is not known.
func (s Seen) HeldAt(now timing.Instant) time.Duration {
	if s.Since == 0 {
		return 0
	}
	return max(0, now.Sub(s.Since))
}

// Waiter is a caller behind the front. Handed and After are set when it is
// told.
type Waiter[L comparable] struct {
	L L
	// Answer has room for one: nil means that the caller is at the front now,
	// else it says why it is refused, since it does not wait.
	Answer  chan *Seen
	MaxHold time.Duration // as in Wish
	Handed  bool          // the lock, or a slot of the limit, is its own
	After   L             // who was at the front before it, once it is there
	// Limit is how many may have the limit, by the caller's own word; nil for a
	// lock.
	Limit func() int

	name        contract.Name
	try, plain  bool
	rank        int64
	queued      bool
	number      uint64 // in order of arrival
	ahead, next *Waiter[L]
}

// Tell tells one who has come to the front.
func (w *Waiter[L]) Tell() { w.Answer <- nil }

// RefuseAll tells those who do not wait.
func RefuseAll[L comparable](refused []*Waiter[L], why Seen) {
	for _, w := range refused {
		answer := why // so that nothing is allocated where none is refused
		w.Answer <- &answer
	}
}

// forget forgets what was known while the name was not ours.
func (q *line[L]) forget() {
	q.forgetPlace()
	q.seen, q.watch.falses = Seen{}, falseWakes{}
}

func (q *line[L]) forgetPlace() { q.place, q.queued, q.unsettled = Place{}, false, 0 }

// left is the place, which nobody here wants any more.
func (q *line[L]) left() Left { return Left{Place: q.place, Unsettled: q.unsettled} }

// after returns who waits behind w, which may have left meanwhile; nil if no
// waiter does.
func (q *line[L]) after(w *Waiter[L]) *Waiter[L] {
	if w.queued {
		return w.next
	}
	next := q.first
	for next != nil && next.number < w.number {
		next = next.next
	}
	return next
}

// push adds a waiter at the end.
func (q *line[L]) push(w *Waiter[L]) {
	q.pushed++
	w.queued, w.number, w.ahead = true, q.pushed, q.last
	if q.last != nil {
		q.last.next = w
	} else {
		q.first = w
	}
	q.last = w
	q.length++
}

// remove takes a waiter out, wherever it stands.
func (q *line[L]) remove(w *Waiter[L]) {
	if w.ahead != nil {
		w.ahead.next = w.next
	} else {
		q.first = w.next
	}
	if w.next != nil {
		w.next.ahead = w.ahead
	} else {
		q.last = w.ahead
	}
	w.queued, w.ahead, w.next = false, nil, nil
	q.length--
}

// removeTries takes out those who do not wait until the lock is free.
func (q *line[L]) removeTries() (removed []*Waiter[L]) {
	for w := q.first; w != nil; {
		next := w.next
		if w.try {
			q.remove(w)
			removed = append(removed, w)
		}
		w = next
	}
	return removed
}

// Watch is how the front of a line hears from the store that its name may be
// free. It outlives the front, for its successor.
type Watch struct {
	wake   chan struct{} // a wake-up that has not been read; made when the watch begins
	falses falseWakes
	on     bool
	stop   func() // nil unless the store watches
}

// Wake notes a wake-up, for the front that listens. It does not block.
func (w *Watch) Wake() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Began notes how the store is told to stop; nil if it does not watch, so that
// the next front tries again.
func (d *Desk[L]) Began(w *Watch, stop func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w.stop, w.on = stop, stop != nil
}

// Listen is how the front waits before it asks again: wake is nil if nothing
// wakes it, and wake-ups before until are answered then, all of them together.
func (d *Desk[L]) Listen(name contract.Name) (wake <-chan struct{}, until timing.Instant) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if q := d.lines.of(name)[name.Text]; q != nil {
		return q.watch.wake, q.watch.falses.until
	}
	return nil, 0
}

// WasFalse notes that the name has not changed hands, though the front was
// woken; or, freed, that it has.
func (d *Desk[L]) WasFalse(name contract.Name, freed bool, now timing.Instant) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch q := d.lines.of(name)[name.Text]; {
	case q == nil:
	case freed:
		q.watch.falses = falseWakes{}
	default:
		q.watch.falses.add(now)
	}
}

// begin reports whether the caller is to have the store watch: no other has.
func (w *Watch) begin() bool {
	if w.on {
		return false
	}
	w.on = true
	if w.wake == nil {
		w.wake = make(chan struct{}, 1)
	}
	return true
}

// end returns what ends the watch at the store; nil if nothing need be.
func (w *Watch) end() (stop func()) {
	stop, w.stop, w.on = w.stop, nil, false
	return stop
}

func (w *Watch) drain() {
	select {
	case <-w.wake:
	default:
	}
}

// The pause after the second wake-up upon which the same holder still had the
// name, and after the next ones in a row, each twice as long as the last.
const (
	firstFalsePause = time.Millisecond
	lastFalsePause  = 250 * time.Millisecond
)

// falseWakes bounds the questions that wake-ups cause. A user of the server who
// may do nothing but publish can send wake-ups: without this, each led to a
// question to the store, 11,000 a second. A wake-up within the pause after a
// false one is answered at the end of the pause, together with all others until
// then.
type falseWakes struct {
	until timing.Instant // the end of the pause; 0 without one
	any   bool           // there was one since the name was last free
	pause time.Duration
}

// add notes a false one. The first costs nothing, as each watch begins with a
// wake-up.
func (f *falseWakes) add(now timing.Instant) {
	if !f.any {
		f.any = true
		return
	}
	f.pause = min(max(2*f.pause, firstFalsePause), lastFalsePause)
	f.until = now.Add(f.pause)
}

type opening uint8

const (
	forAll opening = iota
	forNested
	forNone
)

// Out counts a caller out, and reports whether the desk is not open to all, and
// nobody is inside any more.
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

// Swap puts next at the front instead of l, if that is there. Of a lock, what l
// claimed is gone: next asks from a place of its own.
func (d *Desk[L]) Swap(name contract.Name, l, next L) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f, there := d.fronts.of(name)[name.Text]; there && f.l == l {
		f.l = next
		d.fronts.of(name)[name.Text] = f
		if q := d.lines.of(name)[name.Text]; q != nil && !name.Limit {
			q.forgetPlace()
		}
	}
}

// Told notes that l, at the front of a lock, has heard that the claim from its
// place was granted: whatever becomes of l, nobody goes on from there, as what
// is told once more would answer another claim. unsettled is when a front that
// has left asked last and was not answered; 0 if none did.
func (d *Desk[L]) Told(name contract.Name, l L) (unsettled timing.Instant) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.lines.of(name)[name.Text]
	if q == nil || d.fronts.of(name)[name.Text].l != l {
		return 0
	}
	unsettled = q.unsettled
	q.forgetPlace()
	return unsettled
}
