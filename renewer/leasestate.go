package renewer

import (
	"time"
)

type state uint8

const (
	asking   state = iota // its caller waits, or asks the store
	held                  // ours
	lost                  // not ours any more, but its operation has not returned
	released              // over
)

// limitHold settles where belief in a new lease ends, by its deadline and by MaxHold. Under k.mu.
func (k *Keeper) limitHold(l *Lease, now instant) {
	l.limit = never
	if k.cfg.MaxHold > 0 {
		l.limit, l.limitFor = now.Add(k.cfg.MaxHold), ReasonMaxHold
	}
	l.setUntil()
}

// validFor is how long a lease may be believed in after a request for a TTL was sent.
func (k *Keeper) validFor(ttl time.Duration) time.Duration {
	if ttl == k.cfg.TTL {
		return k.validity
	}
	return validity(ttl, k.cfg.ClockDrift)
}

// setUntil recomputes the end of belief. Under k.mu.
func (l *Lease) setUntil() {
	l.until.Store(int64(min(l.deadline.Add(-l.k.cfg.Margin), l.limit)))
}
