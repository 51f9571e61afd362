package renewer

import (
	"context"
	"time"

	"github.com/lockbeat/lockbeat/renewer/store"
)

// lookAround is how often the end loop reads the clock although nothing is about to end: a machine
// that was suspended has lost that time without any timer having run.
const lookAround = time.Second

// endDue is a step of the end loop: it ends what is due. It asks neither the store nor an observer
// whether to: they hear of it afterwards.
func (k *Keeper) endDue() (next instant) {
	var news losses
	k.mu.Lock()
	now := k.clock.Now()
	for c, due := k.questions.Due(now); due; c, due = k.questions.Due(now) {
		k.questions.Remove(c) // the store has not answered in time
		news.after = append(news.after, func() { c.cancel(errNoAnswer) })
	}
	k.books.EndDue(now, func(l *Lease) { k.expire(l, now, &news) })
	next = min(k.questions.First(), k.books.FirstBound())
	k.mu.Unlock()
	news.deliver(k)
	if next == never {
		return never
	}
	return min(next, now.Add(lookAround))
}

// expire loses a lease whose belief has ended by the clock. Under k.mu.
func (k *Keeper) expire(l *Lease, now instant, news *losses) {
	reason := ReasonExpired
	if limit, why := l.limit(); limit <= now {
		reason = why
	}
	k.lose(l, reason, now, news)
}

// lose ends a held lease and collects the news, which the caller must
// deliver when it has given k.mu back.
func (k *Keeper) lose(l *Lease, reason Reason, now instant, news *losses) {
	l.lose(reason, now)
	k.heartbeats.Unplan(l)
	if l.values != nil { // else it was handed over a moment ago, and its new holder will see
		news.leases = append(news.leases, l)
	}
	left, _ := k.leaveLocked(l)
	news.after = append(news.after, left)
}

// loseTaken is lose for a lease of which the store has answered that it is not ours any more, or
// that it was broken.
func (k *Keeper) loseTaken(l *Lease, a store.Answer, now instant, news *losses) {
	k.lose(l, reasonOf(a), now, news)
	l.lost().found(a)
}

// found notes what the store has found.
func (e *LostError) found(a store.Answer) {
	switch {
	case a.Broken != nil:
		e.By, e.Why = a.Broken.By, a.Broken.Why
		if e.forced = a.Broken.Force; e.forced {
			e.Left = 0
		}
	case a.Status == store.StatusBroken: // by whom is not known any more
	case a.Status == store.StatusGone:
		e.Found = FoundDeleted
	case a.Foreign:
		e.Found = FoundOverwritten
	default:
		e.Found = FoundOwner
		if a.Holder != nil {
			e.Holder = *a.Holder
		}
	}
}

// losses are leases just lost, whose operations have not been told yet.
type losses struct {
	leases []*Lease
	after  []func()
}

// deliver tells the operations, all of them before any observer.
func (n *losses) deliver(k *Keeper) {
	for _, l := range n.leases {
		l.endContext(l.lost())
		for f := range l.extras.onLoss { // none is added any more
			(*f)()
		}
	}
	for _, f := range n.after {
		f()
	}
	if k.observer == nil {
		return
	}
	for _, l := range n.leases {
		k.observer.Lost(l.seen(), Lost{
			Name: l.Name(), Operation: l.label.operation, Fence: l.fence,
			Held: l.extras.lostAt.Sub(l.acquired), Err: l.lost(),
		})
	}
}

// watchCaller starts the grace of [Config.CancelGrace] when the caller's context ends.
func (k *Keeper) watchCaller(caller context.Context, l *Lease) {
	unwatch := context.AfterFunc(caller, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if l.state != stateHeld {
			return
		}
		l.limitTo(k.clock.Now().Add(k.cfg.CancelGrace), ReasonAbandoned)
		k.books.Bound(l)
		k.ends.WakeBy(instant(l.until.Load()))
	})
	operation := l.operation()
	k.mu.Lock()
	operation.unwatch = unwatch
	k.mu.Unlock()
}

// OnLoss has f called when the lease is lost, at the instant at which its context ends for that,
// also if the context has ended before, by its caller. It is called once, in a goroutine of its own
// if the lease is lost already, and never after a release, not even if Release finds that the lease
// was lost: its error says so. f must not block. stop takes it back; a call that is
// under way goes on.
func (l *Lease) OnLoss(f func()) (stop func()) {
	k := l.k
	k.mu.Lock()
	defer k.mu.Unlock()
	switch l.state {
	case stateHeld:
	case stateLost:
		go f() // not under the lock
		return func() {}
	default:
		return func() {}
	}
	extra := l.withExtras()
	if extra.onLoss == nil {
		extra.onLoss = make(map[*func()]struct{})
	}
	extra.onLoss[&f] = struct{}{}
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if l.state == stateHeld { // else they are being called
			delete(extra.onLoss, &f)
		}
	}
}
