package renewer

import "time"

// NewOnSleepyMachine is New on a machine of which slept tells how
// long it has been suspended in all.
func NewOnSleepyMachine(store Store, cfg Config, slept func() time.Duration) (*Keeper, error) {
	return newKeeper(store, cfg, slept)
}

// LinesAndOrphans tells what the keeper remembers of locks that nobody holds, for tests of leaks.
func (k *Keeper) LinesAndOrphans() (lines, orphans int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.lines), k.cleaner.count()
}

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
func NewOwner() string { return newOwner() }
