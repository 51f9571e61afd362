package renewer

import (
	"time"

	"github.com/lockbeat/lockbeat/renewer/internal/desk"
)

// A hand-off passes a lease on to the first of those who wait for the name in this
// process, without asking the store: the owner token, the deadline and the heartbeat go
// on; the context, the limits and the fencing token are new. The store has reserved the tokens with
// the grant ([store.Grant.Reserved]), so that they rise over all holders. It is bounded by
// [Config.HandOffs] and [Config.HandOffFor], so that other processes get their turn.

// bookTokens books the tokens that came with a contended grant. Under k.mu.
func (c *call) bookTokens(now instant) {
	cfg := &c.k.cfg
	if c.reserved <= 0 || cfg.HandOffs < 0 {
		return
	}
	c.l.withExtras().tokens = &tokens{
		granted: now, first: c.l.fence, last: c.l.fence + int64(c.reserved), left: cfg.HandOffs,
		until: now.Add(cfg.HandOffFor),
	}
}

// handOff gives a lease that is being released, and has tokens, to the first waiter, or returns
// false: none waits, no token may be used, the heartbeat is in doubt or too little time is left, or
// something about either lease is unusual. left is to be ended without the lock. Under k.mu.
func (k *Keeper) handOff(l *Lease, now instant) (left desk.Left, done bool) {
	if k.shutdown.phase != phaseRun || l.extras.unusual() {
		return left, false
	}
	token, ok := l.tokens().next(l.fence, now, k.cfg.ClockDrift)
	if !ok {
		return left, false
	}
	// a heartbeat is under way, and may find that the lease is lost
	if !k.heartbeats.Planned(l) {
		return left, false
	}
	if l.deadline.Sub(now) < k.cfg.Margin+2*k.cfg.RequestTimeout {
		return left, false
	}
	w, left := k.desk.HandOver(l.key(), l)
	if w == nil {
		return left, false
	}
	l.tokens().left--
	l.transfer(w.L, w.MaxHold, token, now)
	k.books.Replace(l, w.L)
	// its own MaxHold may be shorter
	k.ends.WakeBy(w.L.nextDue())
	k.heartbeats.Unplan(l) // the new holder plans the next heartbeat when it has a context
	w.Tell()
	return left, true
}

// tokens are the fencing tokens of one grant, for hand-offs. One is used only once as much time has
// passed since the grant as it is above the first: so those in use do not run ahead of the store's
// clock, by which tokens rise after the store has lost its data. Guarded by Keeper.mu.
type tokens struct {
	granted instant // when the answer came: the store's clock has shown first by then
	first   int64   // the token granted
	last    int64   // the highest reserved, first if none is
	left    int     // hand-offs, by Config.HandOffs
	until   instant // by Config.HandOffFor
}

// next is the token above fence, if it may be used by now. The store's clock may be slower than
// ours by the drift.
func (t *tokens) next(fence int64, now instant, drift float64) (int64, bool) {
	fence++
	elapsed := float64(now.Sub(t.granted)) * (1 - drift) / (1 + drift)
	ok := fence <= t.last && t.left > 0 && now < t.until &&
		float64(fence-t.first)*float64(time.Microsecond) <= elapsed
	return fence, ok
}
