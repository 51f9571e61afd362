package renewer

import "time"

// NewOnSleepyMachine is New on a machine of which slept tells how
// long it has been suspended in all.
func NewOnSleepyMachine(store Store, cfg Config, slept func() time.Duration) (*Keeper, error) {
	return newKeeper(store, cfg, slept)
}

// LinesAndOrphans tells what the keeper remembers of locks that nobody holds, for tests of leaks.
func (k *Keeper) LinesAndOrphans() (lines, orphans int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.sweepers {
		orphans += len(s.orphans)
	}
	return len(k.lines), orphans
}

// HandOffTo hands l on to the next in line, who leaves when it is too late to tell anybody. It
// reports whether it was handed on.
func (k *Keeper) HandOffTo(l *Lease, leave func()) bool {
	l.endContext(errReleased)
	k.mu.Lock()
	leave()
	after, done := k.handOff(l, k.clock.Now())
	k.mu.Unlock()
	if done {
		after()
	}
	return done
}

// NewOwner makes an owner token.
func NewOwner() string { return newOwner() }

// A Timetable is the heap of ends or the wheel of heartbeats, with
// leases of its own that have no keeper.
type Timetable struct {
	heap   agenda
	wheel  *wheel
	leases []*Lease
	number map[*Lease]int
}

// NewHeap makes a heap for n leases, none of which is in it.
func NewHeap(n int) *Timetable {
	t := &Timetable{number: make(map[*Lease]int)}
	for i := range n {
		l := &Lease{place: [places]int32{nowhere, nowhere}}
		t.leases = append(t.leases, l)
		t.number[l] = i
	}
	return t
}

// NewWheel makes a wheel for n leases, none of which is in it.
func NewWheel(n int, span time.Duration) *Timetable {
	t := NewHeap(n)
	t.wheel = &wheel{span: span}
	return t
}

// Set enters lease i at an instant.
func (t *Timetable) Set(i int, at int64) {
	if t.wheel != nil {
		t.wheel.set(t.leases[i], instant(at))
		return
	}
	t.heap.set(t.leases[i], instant(at))
}

// Remove takes lease i out.
func (t *Timetable) Remove(i int) {
	if t.wheel != nil {
		t.wheel.remove(t.leases[i])
		return
	}
	t.heap.remove(t.leases[i])
}

// First is the earliest instant; false if there is none.
func (t *Timetable) First() (int64, bool) {
	at := t.heap.first()
	if t.wheel != nil {
		at = t.wheel.first()
	}
	return int64(at), at != never
}

// Take takes out what is due, at most so many.
func (t *Timetable) Take(now int64, most int) []int {
	var taken []int
	if t.wheel != nil {
		t.wheel.take(instant(now), most, func(l *Lease) { taken = append(taken, t.number[l]) })
		return taken
	}
	for len(taken) < most && t.heap.first() <= instant(now) {
		l := t.heap.entries[0].lease
		t.heap.remove(l)
		taken = append(taken, t.number[l])
	}
	return taken
}
