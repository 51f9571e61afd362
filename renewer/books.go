package renewer

// books are what is under way: calls of Acquire, and leases.
//
// What they hold true: a lease is on the books from its grant until its key is free, or the
// cleaner's. A call is on them from when it is in a queue until it has failed, or its lease is on
// them. idle closes once, when neither is left. No lease that is held ends before the bound of its
// segment.
//
// Guarded by Keeper.mu.
type books struct {
	calls  int
	leases []*Lease      // those that were lost included; each has its index from 1 on
	bounds []instant     // of the segments of leases
	idle   chan struct{} // nil until Shutdown asks
}

// segment is how many neighbours share a bound. Heartbeats move on the ends of leases, and not the
// bounds. When a bound comes, its segment is looked through for the earliest end, which takes about
// 10 us: that is once in half a TTL, where an order of all ends would cost each lease its place.
const segment = 1024

// callIn counts a call in.
func (b *books) callIn() { b.calls++ }

// callOut counts a call out.
func (b *books) callOut() {
	b.calls--
	b.check()
}

// enter puts a lease on the books.
func (b *books) enter(l *Lease) {
	b.leases = append(b.leases, l)
	l.index = int32(len(b.leases))
	b.bound(l)
}

// bound lowers the bound of a lease's segment to its end, if that is earlier.
func (b *books) bound(l *Lease) {
	s := int(l.index-1) / segment
	if s == len(b.bounds) {
		b.bounds = append(b.bounds, never)
	}
	if l.state == stateHeld {
		b.bounds[s] = min(b.bounds[s], instant(l.until.Load()))
	}
}

// firstBound is before the end of each lease.
func (b *books) firstBound() instant {
	first := never
	for _, bound := range b.bounds {
		first = min(first, bound)
	}
	return first
}

// over calls end with each held lease whose end has come by now.
func (b *books) over(now instant, end func(*Lease)) {
	for s, bound := range b.bounds {
		if bound > now {
			continue
		}
		b.bounds[s] = never
		from := min(s*segment, len(b.leases))
		for _, l := range b.leases[from:min(from+segment, len(b.leases))] {
			if l.state == stateHeld && instant(l.until.Load()) <= now {
				end(l)
			}
			b.bound(l)
		}
	}
}

// replace puts next in the place of a lease that is on the books.
func (b *books) replace(l, next *Lease) {
	b.leases[l.index-1] = next
	next.index, l.index = l.index, 0
	b.bound(next)
}

// forget takes a lease off the books if it is on them. Its key is free, or disowned before.
func (b *books) forget(l *Lease) {
	if l.index == 0 {
		return
	}
	last := len(b.leases) - 1
	moved := b.leases[last]
	b.leases[l.index-1], moved.index = moved, l.index
	b.leases[last] = nil
	b.leases = b.leases[:last]
	if moved != l {
		b.bound(moved)
	}
	l.index = 0
	b.check()
}

// whenIdle returns what closes when neither calls nor leases are left. It is called once.
func (b *books) whenIdle() <-chan struct{} {
	idle := make(chan struct{})
	b.idle = idle
	b.check()
	return idle
}

func (b *books) check() {
	if b.idle != nil && b.calls == 0 && len(b.leases) == 0 {
		close(b.idle)
		b.idle = nil
	}
}
