package renewer

import (
	"context"
	"time"

	"github.com/lockbeat/lockbeat/renewer/internal/timing"
)

// NewOnSleepyMachine is New on a machine of which slept tells how
// long it has been suspended in all.
func NewOnSleepyMachine(store Store, cfg Config, slept func() time.Duration) (*Keeper, error) {
	return newKeeper(store, cfg, slept)
}

// NamesAndOrphans counts the names that callers want or have, and the keys to be cleaned up.
func (k *Keeper) NamesAndOrphans() (names, orphans int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.queues.fronts.length(), k.cleaner.count()
}

// Queues are wait queues of callers who are told apart by a number.
type Queues struct {
	qs      waitQueues
	waiters map[int]*waiter
	leases  map[int]*Lease
	number  map[*Lease]int
}

// NewQueues makes queues in which no caller waits.
func NewQueues() *Queues {
	return &Queues{newWaitQueues(), map[int]*waiter{}, map[int]*Lease{}, map[*Lease]int{}}
}

// Join has a caller join a name's queue, and reports whether it is the head.
func (q *Queues) Join(name string, caller int, try bool) (head bool) {
	l := &Lease{name: name}
	q.leases[caller], q.number[l] = l, caller
	if q.qs.join(l) {
		return true
	}
	q.waiters[caller] = &waiter{l: l, try: try}
	q.qs.need(name).push(q.waiters[caller])
	return false
}

// Grant makes a name's head the holder.
func (q *Queues) Grant(caller int) { q.qs.grant(q.leases[caller]) }

// HandOver makes the first waiter the holder, and returns it.
func (q *Queues) HandOver(name string) int { return q.number[q.qs.handOver(name).l] }

// Leave has a caller leave the front, and returns the new head; -1 if there is none.
func (q *Queues) Leave(caller int) (head int) {
	if next, _ := q.qs.leave(q.leases[caller]); next != nil {
		return q.number[next.l]
	}
	return -1
}

// StepOut takes a waiter out.
func (q *Queues) StepOut(caller int) {
	w := q.waiters[caller]
	q.qs.of(w.l.name).remove(w)
}

// Tries takes those out who do not wait until the lock is free.
func (q *Queues) Tries(name string) (tries []int) {
	if queue := q.qs.of(name); queue != nil {
		for _, w := range queue.removeTries() {
			tries = append(tries, q.number[w.l])
		}
	}
	return tries
}

// Look returns who has to do with a name; -1 for no head or holder.
func (q *Queues) Look(name string) (head, holder int, waiting []int) {
	numberOf := func(l *Lease) int {
		if l == nil {
			return -1
		}
		return q.number[l]
	}
	if queue := q.qs.of(name); queue != nil {
		for w := queue.first; w != nil; w = w.next {
			waiting = append(waiting, q.number[w.l])
		}
	}
	front := q.qs.fronts.get(name)
	if front != nil && front.role == roleHolder {
		return -1, numberOf(front), waiting
	}
	return numberOf(front), -1, waiting
}

// Empty reports whether nothing is remembered of any name.
func (q *Queues) Empty() bool { return q.qs.fronts.length() == 0 && len(q.qs.queues) == 0 }

// Requests limit questions to the store.
type Requests struct{ r *requests }

// NewRequests limits each question to about timeout.
func NewRequests(timeout time.Duration) *Requests {
	return &Requests{newRequests(timeout, timing.NewClock(func() time.Duration { return 0 }))}
}

// Limited is the context of a question that begins now, with the values of ctx.
func (r *Requests) Limited(ctx context.Context) context.Context { return r.r.limited(ctx) }

// End ends all of them.
func (r *Requests) End() { r.r.end() }

// A Held is a lease of a keeper that does not look after it, with time as a number.
type Held struct{ l *Lease }

// NewHeld makes a lease granted at an instant, to a request that was sent before.
func NewHeld(k *Keeper, sent, now time.Duration) Held {
	h := Held{&Lease{k: k}}
	h.l.grant(instant(sent), instant(now), 0)
	return h
}

// NewHeldFor is NewHeld for a call with a MaxHold of its own; negative for none.
func NewHeldFor(k *Keeper, maxHold, sent, now time.Duration) Held {
	h := Held{&Lease{k: k}}
	h.l.grant(instant(sent), instant(now), maxHold)
	return h
}

// Renewed books a renewal; Missed one without an answer; Lose and Release the end.
func (h Held) Renewed(sent time.Duration)              { h.l.renewed(instant(sent), h.l.ttl()) }
func (h Held) Missed(err error)                        { h.l.missed(err) }
func (h Held) Lose(reason Reason, now time.Duration)   { h.l.lose(reason, instant(now)) }
func (h Held) Release()                                { h.l.end(released) }
func (h Held) LimitTo(at time.Duration, reason Reason) { h.l.limitTo(instant(at), reason) }

// Transfer passes the lease on, to a call with a MaxHold of its own if that is not 0.
func (h Held) Transfer(maxHold time.Duration, fence int64, now time.Duration) Held {
	next := Held{&Lease{k: h.l.k}}
	h.l.transfer(next.l, maxHold, fence, instant(now))
	return next
}

// Until is where belief ends; 0 once it has.
func (h Held) Until() time.Duration { return time.Duration(h.l.until.Load()) }

// Lost is why the lease was lost.
func (h Held) Lost() *LostError { return h.l.lost() }

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
func NewOwner() string {
	token := newOwner()
	return token.String()
}

// MostLogKinds bounds the kinds of lines that a LogObserver counts each on its own.
const MostLogKinds = mostLogKinds

// Kinds is how many kinds of lines it counts.
func (o *LogObserver) Kinds() int {
	o.limit.mu.Lock()
	defer o.limit.mu.Unlock()
	return len(o.limit.kinds)
}
