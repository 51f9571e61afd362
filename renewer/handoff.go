package renewer

import "github.com/lockbeat/lockbeat/renewer/internal/desk"

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
	c.l.belief.Tokens(now, c.reserved, cfg.HandOffs, now.Add(cfg.HandOffFor))
}

// handOff gives a lease that is being released, and has tokens, to the first waiter, or returns
// false: none waits, no token may be used, the heartbeat is in doubt or too little time is left, or
// something about either lease is unusual. left is to be ended without the lock. Under k.mu.
func (k *Keeper) handOff(l *Lease, now instant) (left desk.Left, done bool) {
	if k.shutdown.phase != phaseRun || l.belief.Unusual() {
		return left, false
	}
	token, ok := l.belief.NextToken(&k.rules, now)
	if !ok {
		return left, false
	}
	// a heartbeat is under way, and may find that the lease is lost
	if !k.heartbeats.Planned(l) {
		return left, false
	}
	if l.belief.Left(now) < k.cfg.Margin+2*k.cfg.RequestTimeout {
		return left, false
	}
	w, left := k.desk.HandOver(l.key(), l)
	if w == nil {
		return left, false
	}
	l.belief.Transfer(&k.rules, &w.L.belief, w.MaxHold, token, now)
	k.books.Replace(l, w.L)
	// its own MaxHold may be shorter
	k.ends.WakeBy(w.L.nextDue())
	k.heartbeats.Unplan(l) // the new holder plans the next heartbeat when it has a context
	w.Tell()
	return left, true
}
