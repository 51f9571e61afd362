package store

import (
	"context"
	"iter"
	"time"
)

// Inspector is a [Store] that shows who has its names and who waits for them, and that can break a
// lease. Reading takes no lock and changes nothing.
//
// A store over several servers that may disagree is none: each of its servers is asked by itself.
type Inspector interface {
	Store

	// List reads all names that are not free, or that tasks wait for, in no order, each once, a
	// bounded number in each request: those that owners have, those kept for a place whose turn it
	// is, and those over whose keys another program has written. want is asked for each name, as
	// its users call it, and whether it is a limit's, before more is read of it; nil wants all.
	// What is granted or freed meanwhile may be missing. The sequence ends behind an error. It can
	// be read once.
	List(ctx context.Context, want func(name string, limit bool) bool) iter.Seq2[Lock, error]

	// Show reads one name, with those who wait for it. One that nobody has or waits for is a Lock
	// with neither slots nor places, and no error.
	Show(ctx context.Context, name string, limit bool) (Lock, error)

	// Break breaks the lease of a name that has the token given, and no other: see [Breaking]. It
	// answers [StatusHeld] if that is so now, also if it was before; [StatusTaken] if another token
	// is current, with its holder; and [StatusGone] if no owner has the name, or no slot of a limit
	// the token. Who broke it first is kept, unless it is broken by force then. Its process hears
	// of it at once, by OnBreak, or else when it renews the lease.
	Break(ctx context.Context, b Breaking) Answer

	// OnBreak calls look with the name of a lease of the process that holder tells of, by Node and
	// PID, when that lease may have been broken, for the engine to renew it now; and with "" once
	// it is set up or set up again, since one may have been broken before. Calls may be spurious,
	// and may be lost. look must not block. OnBreak and stop return at once; after stop,
	// a call of look that was under way may still run, and no later one begins.
	OnBreak(holder Holder, look func(name string, limit bool)) (stop func())
}

// Lock is what an [Inspector] shows of a name.
type Lock struct {
	// Name is what users call it. Limit reports whether it is a limit's.
	Name  string
	Limit bool
	// Slots are who has it, the one that lapses first in front: of a lock there is one at most.
	Slots []Slot
	// Turns is for how many places it is kept now: their turn has come.
	Turns int
	// Waiting is how many places stand in line. A process has one for all of its callers, and a
	// lock's holder has none: see [Slot.Callers].
	Waiting int
	// Places are these, the first in front, 1,000 of them at most; nil in a List.
	Places []Place
	// Tasks is how many tasks stand in line outside of any process.
	Tasks int
	// Foreign reports that what is under its key is no owner's: another program has written it.
	Foreign bool
	// At is the store's time when it was read.
	At time.Time
}

// Callers counts those who wait in the processes of the owners: see [Slot.Callers]. A process that
// has several slots is counted once.
func (l Lock) Callers() (n int) {
	if len(l.Slots) == 1 {
		return l.Slots[0].Callers
	}
	type process struct {
		node string
		pid  int
	}
	most := make(map[process]int)
	for _, s := range l.Slots {
		p := process{s.Node, s.PID}
		n += max(s.Callers-most[p], 0)
		most[p] = max(most[p], s.Callers)
	}
	return n
}

// WaitingInAll counts places, tasks, and callers in the processes of the owners.
func (l Lock) WaitingInAll() int { return l.Waiting + l.Tasks + l.Callers() }

// Slot is the lease of one owner.
type Slot struct {
	// Holder is who has it. Like all of a Slot it comes from another process.
	Holder
	// Fence is its fencing token.
	Fence int64
	// Since is when it was granted to this process, by the store's clock: hand-offs within the
	// process do not change it.
	Since time.Time
	// TTL is when it lapses unless it is renewed.
	TTL time.Duration
	// Broken is who broke it; nil if it is not broken. Told reports that its process has heard so
	// since, by renewing it.
	Broken *Broken
	Told   bool
	// Callers is how many callers of its process wait for the name there, behind the owner of a
	// lock, or behind the process's place of a limit. It is as of the claim, or of a heartbeat
	// since; 0 if it is not known.
	Callers int
}

// Place is one in the line of those who wait.
type Place struct {
	// Holder is who waits; its zero value if the store does not know yet, or any more.
	Holder
	// Version is that of the module in that process; "" if it is not known.
	Version string
	// Since is when it came, by the store's clock.
	Since time.Time
}

// Breaking orders the end of one lease. From then on renewals of it are refused. Its operation's
// context ends, and the name is free when that has returned and released it, at the end of its TTL
// at the latest: so two owners never have it at once.
type Breaking struct {
	// Name is that of the lock, or with Limit of a limit.
	Name  string
	Limit bool
	// Fence is the fencing token of the lease.
	Fence int64
	// Broken is what its holder is told.
	Broken
}

// Broken is who broke a lease, and why.
type Broken struct {
	// By is who, and Why is why. Stores keep 64 bytes of each, without what can't be printed.
	By, Why string
	// Force means that the name was freed at once. So its next owner and the operation of the
	// former one may have run side by side, with nothing but fencing between them.
	Force bool
	// Replaced means that a newer call took its place: see renewer.Newest.
	Replaced bool
}
