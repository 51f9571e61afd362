package renewer

// books are what is under way: calls of Acquire, and leases.
//
// What they hold true: a lease is on the books from its grant until its key is free, or the
// cleaner's. A call is on them from when it is in a queue until it has failed, or its lease is on
// them. idle closes once, when neither is left.
//
// Guarded by Keeper.mu.
type books struct {
	calls  int
	leases []*Lease      // those that were lost included; each has its index from 1 on
	idle   chan struct{} // nil until Shutdown asks
}

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
}

// replace puts next in the place of a lease that is on the books.
func (b *books) replace(l, next *Lease) {
	b.leases[l.index-1] = next
	next.index, l.index = l.index, 0
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
