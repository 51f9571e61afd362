package renewer

import (
	"time"

	"github.com/lockbeat/lockbeat/renewer/internal/asking"
	"github.com/lockbeat/lockbeat/renewer/internal/lease"
)

// ProbePause is how often a store that is away is asked.
const ProbePause = asking.ProbePause

// NewOnSleepyMachine is New on a machine of which slept tells how
// long it has been suspended in all.
func NewOnSleepyMachine(s Store, cfg Config, slept func() time.Duration) (*Keeper, error) {
	return newKeeper(s, cfg, slept)
}

// NamesAndOrphans counts the names that callers want or have, and the keys to
// be cleaned up.
func (k *Keeper) NamesAndOrphans() (names, orphans int) {
	defer k.lock().Unlock()
	return k.desk.Names(), k.cleaner.Count()
}

// HandOffTo hands l on to the next in line, who leaves when it is too late to
// tell anybody. It reports whether it was handed on.
func (k *Keeper) HandOffTo(l *Lease, leave func()) bool {
	l.op.End(lease.ErrReleased)
	b := k.lock()
	leave()
	left, done := b.handOff(l, k.clock.Now())
	b.Unlock()
	if done {
		left.End()
	}
	return done
}

// NewOwner makes an owner token.
func NewOwner() string {
	token := lease.NewOwner()
	return token.String()
}

// MostTold bounds the lines of one kind that Config.Log gets in a minute.
const MostTold = mostTold

// MostLabels bounds the operations that cost nothing.
const MostLabels = mostLabels

// MostLogKinds bounds the kinds of lines that a log observer counts each on its
// own.
const MostLogKinds = mostLogKinds

// LogKinds is how many kinds of lines one of NewLogObserver counts.
func LogKinds(observer Observer) int {
	o := observer.(*logObserver)
	o.limit.mu.Lock()
	defer o.limit.mu.Unlock()
	return len(o.limit.kinds)
}

// Limited reports whether a lease is a slot of a limit.
func (l *Lease) Limited() bool { return l.label.limited }
