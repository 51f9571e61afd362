package renewer

import (
	"iter"
	"runtime"
	"slices"
	"time"

	"github.com/lockbeat/lockbeat/renewer/store"
)

// Holding is a lease of this process whose operation has not returned.
type Holding struct {
	Name        string // unbounded: never a metric attribute
	Operation   string
	Limited     bool // it is a slot of a limit
	LongRunning bool
	Fence       int64
	Since       time.Time  // when it was acquired, or handed over
	Until       time.Time  // when it ends if no further heartbeat succeeds; zero if it is lost
	Waiting     int        // callers of this process who wait for it
	Lost        *LostError // why it is lost, although the operation still runs; nil if it is not
	LostAt      time.Time  // zero if it is not lost
}

// Waiting is a caller of this process who asks or waits for a lock.
type Waiting struct {
	Name        string // unbounded: never a metric attribute
	Operation   string
	Limited     bool // it waits for a slot of a limit
	LongRunning bool
	Since       time.Time    // when it began to ask
	Holder      store.Holder // who has the lock, as far as is known
	HeldSince   time.Time    // when Holder got it; zero if unknown
	Err         error        // why the store could not be asked, or nil
}

// Holdings returns the leases whose operations have not returned, also those
// that are lost, in no order. It does not ask the store, and holds nothing up;
// leases that begin meanwhile are missing.
func (k *Keeper) Holdings() iter.Seq[Holding] {
	return func(yield func(Holding) bool) {
		inChunks(k, k.onBooks(), (*books).holding, yield)
	}
}

// Waiting returns the callers who ask or wait for a lock, those of a name in
// their order. Otherwise it is like [Keeper.Holdings]. One that asks for a free
// slot is missing.
func (k *Keeper) Waiting() iter.Seq[Waiting] {
	return func(yield func(Waiting) bool) {
		inChunks(k, k.desk.Asking(insideChunk), (*books).waiting, yield)
	}
}

// insideChunk is at how many leases one look has the books: some 40 us, as each
// of them is elsewhere in memory.
const insideChunk = 256

// inChunks tells of leases what read says of them, in chunks: it has the books
// for one at a time, and not while the caller looks at it.
func inChunks[T any](
	k *Keeper, leases []*Lease, read func(*books, *Lease, dial) (T, bool), yield func(T) bool,
) {
	chunk := make([]T, 0, min(len(leases), insideChunk))
	for len(leases) > 0 {
		n := min(len(leases), insideChunk)
		chunk = chunk[:0]
		b := k.lock()
		d := dial{k.clock.AtMost(), time.Now()}
		for _, l := range leases[:n] {
			if one, ok := read(b, l, d); ok {
				chunk = append(chunk, one)
			}
		}
		b.Unlock()
		runtime.Gosched() // to one that waits for the lock
		leases = leases[n:]
		for _, one := range chunk {
			if !yield(one) {
				return
			}
		}
	}
}

// dial is one moment by the keeper's clock and by the user's.
type dial struct {
	now  instant
	wall time.Time
}

// time is an instant by the user's clock; zero for 0.
func (d dial) time(at instant) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return d.wall.Add(at.Sub(d.now))
}

// onBooks are the leases on the books, and some that are asked for: their
// pointers, which are copied at once, as they change places when one goes.
func (k *Keeper) onBooks() []*Lease {
	b := k.lock()
	n := b.leases.Len()
	b.Unlock()
	all := make([]*Lease, 0, n+n/8+insideChunk) // not under the lock
	b = k.lock()
	defer b.Unlock()
	return slices.AppendSeq(all, b.leases.All())
}

// holding is what is told of a lease on the books.
func (b *books) holding(l *Lease, d dial) (h Holding, ok bool) {
	if !l.belief.Held() && !l.belief.Lost() {
		return h, false
	}
	h = Holding{
		Name: l.Name(), Operation: l.label.operation, Limited: l.label.limited,
		LongRunning: l.belief.LongRunning(), Fence: l.belief.Fence, Since: d.time(l.belief.Since()),
		Until: d.time(l.belief.Until()), Waiting: b.behind(l), Lost: l.belief.Why(),
	}
	if h.Lost != nil {
		h.LostAt = d.time(l.belief.LostAt())
	}
	return h, true
}

// waiting is what is told of a lease that a caller asks for.
func (b *books) waiting(l *Lease, d dial) (w Waiting, ok bool) {
	if !l.belief.Asking() {
		return w, false
	}
	w = Waiting{
		Name: l.Name(), Operation: l.label.operation, Limited: l.label.limited,
		LongRunning: l.belief.LongRunning(), Since: d.time(l.belief.Since()),
	}
	if last := b.k.desk.Last(l.key()); last.Has != nil {
		w.Holder, w.HeldSince = b.k.holder(last.Has), d.time(last.Has.belief.Since())
	} else if last.Known {
		w.Holder, w.HeldSince, w.Err = last.Seen.Holder, d.time(last.Seen.Since), last.Seen.Err
	}
	return w, true
}
