package renewer

import "time"

// NewOnSleepyMachine is New on a machine of which slept tells how long it has been suspended in all.
func NewOnSleepyMachine(store Store, cfg Config, slept func() time.Duration) (*Keeper, error) {
	return newKeeper(store, cfg, slept)
}

// LinesAndOrphans tells what the keeper remembers of locks that nobody holds, for tests of leaks.
func (k *Keeper) LinesAndOrphans() (lines, orphans int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.lines), len(k.orphans)
}

// NewOwner makes an owner token.
func NewOwner() string { return newOwner() }

// An Agenda of leases without a keeper.
type Agenda struct {
	a     agenda
	lease []*Lease
}

// NewAgenda makes an agenda for n leases, none of which is in it.
func NewAgenda(n int) *Agenda {
	a := &Agenda{a: agenda{which: ends}}
	for range n {
		a.lease = append(a.lease, &Lease{place: [agendas]int32{nowhere, nowhere}})
	}
	return a
}

// Set enters lease i at an instant.
func (a *Agenda) Set(i int, at int64) { a.a.set(a.lease[i], instant(at)) }

// Remove takes lease i out.
func (a *Agenda) Remove(i int) { a.a.remove(a.lease[i]) }

// First is the earliest instant.
func (a *Agenda) First() int64 { return int64(a.a.first()) }

// Pop takes out the earliest and tells its instant.
func (a *Agenda) Pop() int64 {
	at := a.First()
	a.a.pop()
	return at
}

// Len is how many are in.
func (a *Agenda) Len() int { return len(a.a.entries) }
