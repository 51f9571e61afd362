package store

import (
	"context"
	"iter"
	"time"
)

// Inspector is a [Store] that shows who has its names and who waits for them,
// and that can break a lease. Reading takes no lock and changes nothing.
type Inspector interface {
	Store

	// List reads all names that are not free, or that tasks wait for, in no
	// order, each once, a bounded number in each request. want is asked before
	// more is read of a name; nil wants all. What is granted or freed meanwhile
	// may be missing. The sequence ends behind an error, and can be read once.
	List(ctx context.Context, want func(name string, limit bool) bool) iter.Seq2[Lock, error]

	// Show reads one name, with those who wait for it. One that is free has no
	// slots, and is no error.
	Show(ctx context.Context, name string, limit bool) (Lock, error)

	// Break breaks the lease that has the token given, and no other. It answers
	// [StatusHeld] if it is broken now, also if it was before; [StatusTaken] if
	// another token is current, with its holder; and [StatusGone] if no owner
	// has the name, or no slot the token. Who broke it first is kept, unless it
	// is broken by force then.
	Break(ctx context.Context, b Breaking) Answer

	// OnBreak calls look with the name of a lease of the process that holder
	// tells of, by Node and PID, when it may have been broken, and with "" once
	// it is set up or set up again. Calls may be spurious, and may be lost.
	// look must not block. OnBreak and stop return at once; after stop, a call
	// under way may still run, and no later one begins.
	OnBreak(holder Holder, look func(name string, limit bool)) (stop func())
}

// Lock is what an [Inspector] shows of a name.
type Lock struct {
	// Name is that of the lock, or with Limit of a limit.
	Name  string
	Limit bool
	// Slots are who has it, the one that lapses first in front: of a lock there
	// is one at most.
	Slots []Slot
	// Turns is for how many places slots of a limit are kept now: their turn
	// has come.
	Turns int
	// Waiting is how many places stand in line: one a process that waits. A
	// lock's holder has none.
	Waiting int
	// Places are these, the first in front, 1,000 of them at most; nil in a
	// List.
	Places []Place
	// Tasks is how many tasks stand in line outside of any process.
	Tasks int
	// Foreign means that another program has written its key.
	Foreign bool
	// At is the store's time when it was read.
	At time.Time
}

// Callers counts those who wait in the processes of the owners, each process
// once.
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

// WaitingInAll counts places, tasks, and callers in the processes of the
// owners.
func (l Lock) WaitingInAll() int { return l.Waiting + l.Tasks + l.Callers() }

// Slot is the lease of one owner. All of it comes from another process.
type Slot struct {
	Holder
	// Fence is the fencing token, or 0 if it is not noted yet: it is by the
	// first heartbeat at the latest.
	Fence int64
	// Since is when it was granted to this process, by the store's clock:
	// hand-offs within the process do not change it.
	Since time.Time
	// TTL is when it lapses unless it is renewed.
	TTL time.Duration
	// Broken is who broke it, or nil. Told means that its process has heard so,
	// by a renewal.
	Broken *Broken
	Told   bool
	// Callers is how many callers of its process wait there, behind the owner
	// of a lock, or behind the process's place of a limit, as of the last
	// heartbeat that told; 0 if it is not known.
	Callers int
}

// Place is one in the line of those who wait.
type Place struct {
	// Holder is who waits; its zero value if that is not known.
	Holder
	// Version is that of the module in that process; "" if it is not known.
	Version string
	// Since is when it came, by the store's clock.
	Since time.Time
}

// Breaking orders the end of one lease. From then on its renewals are refused,
// so that its operation's context ends. The name is free when that has returned
// and released it, at the end of the TTL at the latest.
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
	// By is who, and Why is why. Stores keep 64 bytes of each, without what
	// can't be printed.
	By, Why string
	// Force means that the name was freed at once: its next owner and the
	// operation of the former one may run side by side.
	Force bool
	// Replaced means that a newer call took its place: see renewer.Newest.
	Replaced bool
}

// Recorder is a [Store] that also keeps a record with each name: what a holder
// has to tell the next one, such as that a work is done. It outlives the lock,
// for a TTL of its own, and only the latest holder can write it: one prepares
// first, and from then on every holder with a lower fencing token is refused.
//
// A record is kept by one store that does not forget; one over several servers
// is none. A store that takes no more than so many bytes in a record has a
// method MaxRecord() int, and answers a larger one with [ErrRejected]. Batches,
// ctx and doubt are as in [Store].
type Recorder interface {
	Store

	// Prepare begins the term of a holder of each name, and reads its record:
	// [StatusHeld], unless a holder with a higher token has prepared before,
	// which is [StatusTaken]. It may be repeated.
	Prepare(ctx context.Context, terms []Term) []Seen

	// Read reads the record of each name, and changes nothing: [StatusHeld].
	Read(ctx context.Context, names []string) []Seen

	// Write replaces each record whose term is the writer's: [StatusHeld]. It
	// answers [StatusTaken] if a holder with a higher token has prepared since,
	// [StatusGone] if the term is not there, and [StatusBehind] if a write of
	// the same holder with a higher Seq, or with the same Seq and other data,
	// has come before. A write repeated as it was is StatusHeld again; one with
	// Erase is StatusGone.
	Write(ctx context.Context, records []Record) []Answer
}

// Term is the time in which one holder may write the record of a lock.
type Term struct {
	Name string
	// Fence is the holder's fencing token: positive.
	Fence int64
	// TTL is how long the term lives if there is no record: whole milliseconds,
	// at least 1. A record keeps its own.
	TTL time.Duration
	// Data, unless it is "", is the holder's first record, with Seq 1, to live
	// for TTL. It is written, and shown, if the record is still the one of
	// After; else the term alone begins.
	Data string
	// After is the Fence and Seq that Read has shown, 0 and 0 for none. Below
	// Fence.
	After struct{ Fence, Seq int64 }
}

// Seen is what [Recorder] Prepare and Read show of a record.
type Seen struct {
	Status Status
	// Fence is the token of who wrote the record, when StatusHeld; 0 if there
	// is none.
	Fence int64
	// Seq is the record's number among those that this holder wrote.
	Seq int64
	// Data is the record.
	Data string
	// TTL is how long the record lives unless it is written anew; 0 if there is
	// none, or if the store can't tell.
	TTL time.Duration
	// Now is the store's time when it answered, when StatusHeld. It may go
	// back, by a fail-over.
	Now time.Time
	// Err says why, when StatusUnknown.
	Err error
}

// Record is what a holder of a lock leaves for those who come later.
type Record struct {
	Name string
	// Fence is the fencing token of the holder.
	Fence int64
	// Seq numbers the holder's records of this name, from 1 on and below 2^52,
	// each above the last. If what Prepare has shown is under this Fence, it
	// goes on from that one's Seq.
	Seq int64
	// Data is any bytes.
	Data string
	// TTL is how long the record and its term live: whole milliseconds, at
	// least 1.
	TTL time.Duration
	// Erase removes the record and ends the term. Data and TTL are ignored
	// then.
	Erase bool
}
