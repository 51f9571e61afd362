package renewer

import (
	"time"

	"github.com/lockbeat/lockbeat/renewer/internal/asking"
)

// ProbePause is how often a store that is away is asked.
const ProbePause = asking.ProbePause

// NewOnSleepyMachine is New on a machine of which slept tells how
// long it has been suspended in all.
func NewOnSleepyMachine(s Store, cfg Config, slept func() time.Duration) (*Keeper, error) {
	return newKeeper(s, cfg, slept)
}

// NamesAndOrphans counts the names that callers want or have, and the keys to be cleaned up.
func (k *Keeper) NamesAndOrphans() (names, orphans int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.queues.Names(), k.cleaner.Count()
}

// A Held is a lease of a keeper that does not look after it, with time as a number.
type Held struct{ l *Lease }

// NewHeld makes a lease granted at an instant, to a request that was sent before.
func NewHeld(k *Keeper, sent, now time.Duration) Held {
	h := Held{&Lease{k: k}}
	h.l.grant(instant(sent), instant(now), 0)
	return h
}

// Renewed books a renewal; Missed one without an answer; Lose and Release the end.
func (h Held) Renewed(sent time.Duration)              { h.l.renewed(instant(sent), h.l.ttl()) }
func (h Held) Missed(err error)                        { h.l.missed(err) }
func (h Held) Lose(reason Reason, now time.Duration)   { h.l.lose(reason, instant(now)) }
func (h Held) Release()                                { h.l.end(stateReleased) }
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

// MostTold bounds the lines of one kind that Config.Log gets in a minute.
const MostTold = mostTold

// MostLabels bounds the operations that cost nothing.
const MostLabels = mostLabels

// MostLogKinds bounds the kinds of lines that a log observer counts each on its own.
const MostLogKinds = mostLogKinds

// LogKinds is how many kinds of lines one of NewLogObserver counts.
func LogKinds(observer Observer) int {
	o := observer.(*logObserver)
	o.limit.mu.Lock()
	defer o.limit.mu.Unlock()
	return len(o.limit.kinds)
}
