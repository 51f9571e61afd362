package renewer

import "time"

// The state of a lease, and until when it is believed in, are written in this file only, under
// Keeper.mu.
//
// What it holds true: until, which Valid looks at, is at most Margin before the end of the TTL at
// the store, by its slowest clock. It moves on only while the lease is held and by what the store
// has confirmed, and is 0 from the instant at which the lease is not held any more.

// grant begins a lease that the store has granted. sent is when the request was, from which its
// time counts. maxHold is as in [Lease.boundTo].
func (l *Lease) grant(sent, now instant, maxHold time.Duration) {
	l.state, l.acquired = stateHeld, now
	l.deadline = l.k.deadlineOf(sent, l.ttl())
	l.boundTo(maxHold)
	l.setUntil()
}

// boundTo sets the MaxHold of a lease whose call has its own: 0 if it has not, negative for none.
func (l *Lease) boundTo(maxHold time.Duration) {
	switch {
	case maxHold > 0:
		extra := l.withExtras()
		extra.limit, extra.limitFor = l.acquired.Add(maxHold), ReasonMaxHold
	case maxHold < 0 && l.k.cfg.MaxHold > 0:
		l.withExtras().limit = never
	}
}

// renewed books that the store has confirmed a lease for ttl, answering a request that was sent at
// an instant.
func (l *Lease) renewed(sent instant, ttl time.Duration) {
	if l.extras != nil {
		l.extras.lastErr = nil
	}
	l.renewals++
	l.deadline = max(l.deadline, l.k.deadlineOf(sent, ttl)) // answers may overtake each other
	l.setUntil()
}

// missed books a renewal whose outcome is not known: the time of the lease stays as it was.
func (l *Lease) missed(err error) { l.withExtras().lastErr = err }

// transfer passes a lease on to next: the owner, the store's time and the tokens go on; the limits
// and the fencing token are new. maxHold is that of next, as in [Lease.boundTo].
func (l *Lease) transfer(next *Lease, maxHold time.Duration, fence int64, now instant) {
	next.owner, next.fence = l.owner, fence
	next.state, next.acquired, next.deadline, next.due = stateHeld, now, l.deadline, l.due
	next.takeTokens(l)
	next.boundTo(maxHold)
	next.setUntil()
	l.end(stateReleased)
}

// takeTokens takes the extras of the lease before, with nothing in them but its tokens and what the
// store was told: so a hand-off allocates none. l has none of its own: see handOff.
func (l *Lease) takeTokens(before *Lease) {
	if t := before.extras; t != nil {
		*t = leaseExtras{tokens: t.tokens, told: t.told}
		l.extras, before.extras = t, nil
	}
}

// limitTo ends belief at an instant, if nothing ends it before.
func (l *Lease) limitTo(at instant, reason Reason) {
	if limit, _ := l.limit(); at < limit {
		extra := l.withExtras()
		extra.limit, extra.limitFor = at, reason
	}
	l.setUntil()
}

// lose ends a held lease before its operation does.
func (l *Lease) lose(reason Reason, now instant) {
	l.end(stateLost)
	err := &LostError{Name: l.Name(), Reason: reason, Fence: l.fence}
	extra := l.withExtras()
	extra.lost, extra.lostAt = err, now
	if reason != ReasonTaken {
		err.Left = max(0, l.deadline.Sub(now))
	}
	switch {
	case reason == ReasonExpired:
		err.Err = extra.lastErr
	case reason == ReasonMaxHold && extra.limit != 0:
		err.maxHold = extra.limit.Sub(l.acquired)
	}
}

// foundLost books that the store, when the lease was released, did not know it any more.
func (l *Lease) foundLost(err *LostError) { l.withExtras().lost = err }

// end ends a lease as lost or as released.
func (l *Lease) end(as state) {
	l.state = as
	l.until.Store(0)
}

// limit is where MaxHold or CancelGrace ends a lease, and which; never if neither does.
func (l *Lease) limit() (at instant, reason Reason) {
	if l.extras != nil && l.extras.limit != 0 {
		return l.extras.limit, l.extras.limitFor
	}
	if most := l.k.cfg.MaxHold; most > 0 {
		return l.acquired.Add(most), ReasonMaxHold
	}
	return never, ReasonExpired
}

// setUntil settles until when a lease is believed in, by its deadline and by its limit.
func (l *Lease) setUntil() {
	limit, _ := l.limit()
	l.until.Store(int64(min(l.deadline.Add(-l.k.cfg.Margin), limit)))
}

// deadlineOf is until when the store certainly holds a key for ttl after a request was sent.
func (k *Keeper) deadlineOf(sent instant, ttl time.Duration) instant {
	return sent.Add(validity(ttl, k.cfg.ClockDrift))
}
