package renewer

import "time"

// waitQueues orders the callers of this process who want one name. It does no I/O, and knows
// nothing of a lease but its name. Guarded by Keeper.mu.
//
// Its invariant: a name that callers of this process want has a head or a holder, and every other
// caller waits behind these, in order of arrival. So the one that leaves the front makes
// way for the first waiter, and no waiter is forgotten.
type waitQueues struct {
	fronts fronts                // who comes before the waiters of a name
	queues map[string]*waitQueue // of the names for which callers wait
}

// role is what the lease at the front of its name does.
type role uint8

const (
	roleHead   role = iota // asks the store, alone
	roleHolder             // has the lock, until the store has heard that it is free
)

// waitQueue is the queue of one name: those who wait behind its front, and what they share. It is
// made for the first waiter, or when the head has to wait for another process, and goes when its
// name has no front any more.
type waitQueue struct {
	first, last *waiter
	length      int
	seen        holderInfo // what the head last learned
	watch       watch      // on behalf of the head
	// The place from which heads ask the store, which keeps its rank when a head leaves; 0 as long
	// as none has asked since the name was last ours.
	place  uint64
	queued bool // the store may have it in its line
	// When a head that has left asked from it last and was not answered: that may put it there.
	unsettled instant
}

// waiter is a caller behind the front.
type waiter struct {
	l *Lease
	// nil: you are at the front now; otherwise why you are refused, since you do not wait
	answer      chan *holderInfo
	try         bool // does not wait until the lock is free
	term        *termRequest
	maxHold     time.Duration // its own, as in Lease.boundTo
	queued      bool
	handed      bool   // at the front as the holder: the lock is yours
	after       *Lease // the holder before, once it is at the front; nil if there was none
	ahead, next *waiter
}

func newWaitQueues() waitQueues {
	return waitQueues{fronts: newFronts(), queues: make(map[string]*waitQueue)}
}

// join makes l the head of its name if that has no front, and reports whether it has.
func (qs *waitQueues) join(l *Lease) bool {
	if qs.fronts.get(l.name) != nil {
		return false
	}
	qs.fronts.put(l)
	return true
}

// holder is the lease of this process that has a name; nil if none has.
func (qs *waitQueues) holder(name string) *Lease {
	if l := qs.fronts.get(name); l != nil && l.role == roleHolder {
		return l
	}
	return nil
}

// length is how many callers wait for a name.
func (qs *waitQueues) length(name string) int {
	if q := qs.queues[name]; q != nil {
		return q.length
	}
	return 0
}

// of is the queue of a name; nil if it has none.
func (qs *waitQueues) of(name string) *waitQueue { return qs.queues[name] }

// need is the queue of a name, made if there is none.
func (qs *waitQueues) need(name string) *waitQueue {
	q := qs.queues[name]
	if q == nil {
		q = new(waitQueue)
		qs.queues[name] = q
	}
	return q
}

// keepPlace leaves the place of a head to its queue, from which it has asked, at an instant, a
// question that was not answered. It does nothing for a lease that is no head.
func (qs *waitQueues) keepPlace(l *Lease, place uint64, asked instant) {
	if place == 0 || qs.fronts.get(l.name) != l || l.role != roleHead {
		return
	}
	q := qs.need(l.name)
	q.place, q.queued, q.unsettled = place, true, asked
}

// unsettled is when a head of a name that has left asked last and was not answered; 0 without.
func (qs *waitQueues) unsettled(name string) instant {
	if q := qs.queues[name]; q != nil {
		return q.unsettled
	}
	return 0
}

// drop forgets the queue of a name, in which no caller waits any more.
func (qs *waitQueues) drop(name string) { delete(qs.queues, name) }

// grant makes the head of a name its holder. It returns the queue, nil if there is none.
func (qs *waitQueues) grant(l *Lease) *waitQueue {
	l.role = roleHolder
	return qs.queues[l.name]
}

// handOver makes the first waiter of a name the holder, in place of the one it has.
func (qs *waitQueues) handOver(name string) *waiter {
	q := qs.queues[name]
	w := q.first
	q.remove(w)
	w.handed, w.after = true, qs.holder(name)
	w.l.role = roleHolder
	qs.fronts.put(w.l)
	return w
}

// leave takes l from the front, if it is there, and makes the first waiter the head: next, whose
// place is that of the one before. If there is none the name is forgotten; over is its queue then,
// nil if it had none.
func (qs *waitQueues) leave(l *Lease) (next *waiter, over *waitQueue) {
	if qs.fronts.get(l.name) != l {
		return nil, nil
	}
	q := qs.queues[l.name]
	if q == nil || q.first == nil {
		qs.fronts.remove(l.name)
		delete(qs.queues, l.name)
		return nil, q
	}
	next = q.first
	q.remove(next)
	next.after = qs.holder(l.name)
	qs.fronts.put(next.l)
	return next, nil
}

// push adds a waiter at the end.
func (q *waitQueue) push(w *waiter) {
	w.queued, w.ahead = true, q.last
	if q.last != nil {
		q.last.next = w
	} else {
		q.first = w
	}
	q.last = w
	q.length++
}

// remove takes a waiter out, wherever it stands.
func (q *waitQueue) remove(w *waiter) {
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
func (q *waitQueue) removeTries() []*waiter {
	return q.removeIf(func(w *waiter) bool { return w.try })
}

// removeIf takes out those of whom something is true.
func (q *waitQueue) removeIf(is func(*waiter) bool) []*waiter {
	var removed []*waiter
	for w := q.first; w != nil; {
		next := w.next
		if is(w) {
			q.remove(w)
			removed = append(removed, w)
		}
		w = next
	}
	return removed
}
