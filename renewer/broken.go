package renewer

import (
	"context"
	"time"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/internal/asking"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// breaker is the part of a [store.Inspector] that the engine uses.
type breaker interface {
	Break(ctx context.Context, b store.Breaking) store.Answer
	OnBreak(holder store.Holder, look func(name string, limit bool)) (stop func())
}

// looks is how a keeper hears that a lease of its own may have been broken. It
// listens from when a lease is a second old, or about to have its first
// heartbeat, or has none: for one that is over sooner that would cost more than
// it brings. Guarded by Keeper.mu.
type looks struct {
	k       *Keeper
	listens bool   // or the store tells nobody
	stop    func() // nil unless the store tells
	limits  instant
	young   instant
}

const (
	// listenAfter is how old a lease is when its keeper begins to listen.
	listenAfter = time.Second
	// lookPause bounds how often a lease is looked at upon messages, which any
	// user of the server who may publish can send.
	lookPause = 100 * time.Millisecond
	// limitPause bounds how often all leases are looked through, for those of a
	// limit or those that have had no heartbeat. What comes sooner waits for
	// the heartbeat.
	limitPause = 10 * time.Millisecond
)

// listenAt is when the keeper is to begin to listen, for the oldest of its
// leases. Under k.mu.
func (w *looks) listenAt() instant {
	k := w.k
	at := never
	if w.listens {
		return at
	}
	for l := range k.leases.All() { // few have been there when one is a second old
		if l.belief.Held() {
			at = min(at, l.belief.Since().Add(listenAfter))
		}
	}
	return at
}

// listen has the store tell of leases that may have been broken, once.
func (w *looks) listen() {
	k := w.k
	s, ok := k.store.(breaker)
	k.mu.Lock()
	first := !w.listens && k.shutdown.phase < phaseFree
	w.listens = true
	k.mu.Unlock()
	if !first || !ok {
		return
	}
	stop := s.OnBreak(k.self, w.look)
	k.mu.Lock()
	over := k.shutdown.phase >= phaseFree
	if !over {
		w.stop = stop
	}
	k.mu.Unlock()
	if over {
		stop()
	}
}

// deaf ends what listen has begun.
func (w *looks) deaf() {
	k := w.k
	k.mu.Lock()
	stop := w.stop
	w.stop = nil
	k.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// look renews the leases of a name now: the answer says if they were broken.
// Without a name it renews those that have had no heartbeat yet: they may have
// been broken before the store told.
func (w *looks) look(name string, limit bool) {
	k := w.k
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.clock.Now()
	if name == "" {
		w.lookAtNew(now)
		return
	}
	if !limit {
		key := contract.Name{Text: name}
		k.desk.Nudge(key)
		if l := k.desk.Last(key).Has; l != nil {
			w.lookAt(l, now)
		}
		return
	}
	if now < w.limits.Add(limitPause) {
		return
	}
	w.limits = now
	for l := range k.leases.All() {
		if l.name == name && l.label.limited {
			w.lookAt(l, now)
		}
	}
}

// lookAtNew has those leases renewed now that have had no heartbeat. Under
// k.mu.
func (w *looks) lookAtNew(now instant) {
	k := w.k
	if now < w.young.Add(limitPause) {
		return
	}
	w.young = now
	for l := range k.leases.All() {
		if l.belief.Renewals() == 0 && k.heartbeats.Planned(l) {
			w.lookAt(l, now)
		}
	}
}

// lookAt has a lease renewed now. Under k.mu.
func (w *looks) lookAt(l *Lease, now instant) {
	k := w.k
	if !l.belief.Held() || k.shutdown.phase >= phaseFree {
		return
	}
	at, ok := l.belief.Look(now, lookPause)
	if !ok {
		return
	}
	if l.belief.IsManual() {
		k.goroutines.run(func() { w.askManual(l) })
		return
	}
	k.plan(l, min(at, max(l.belief.Due, now)))
}

// askManual asks whether a lease without a heartbeat was broken. A renewal
// shortens no TTL.
func (w *looks) askManual(l *Lease) {
	k := w.k
	h := l.hold()
	h.TTL = time.Millisecond
	a := asking.AnswerTo(k.store.Renew(k.requests.Limit(), []store.Hold{h}), 0, 1)
	news := losses{k: k}
	k.mu.Lock()
	over := a.Status != store.StatusHeld && a.Status != store.StatusUnknown
	if over && l.belief.Held() {
		news.now = k.clock.Now()
		news.loseTaken(l, a)
	}
	k.mu.Unlock()
	news.deliver()
}

// reasonOf is why a lease is lost, by the answer that it is not the owner's any
// more.
func reasonOf(a store.Answer) Reason {
	switch {
	case a.Broken != nil && a.Broken.Replaced:
		return ReasonReplaced
	case a.Broken != nil || a.Status == store.StatusBroken:
		return ReasonBroken
	default:
		return ReasonTaken
	}
}
