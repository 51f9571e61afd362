package store

import (
	"context"
	"time"
)

// Recorder is a [Store] that also keeps a record with each name: what its holders have to
// tell the next one, such as that a work is done. It outlives the lock, for a TTL of its own,
// and only the latest holder can write it, whatever an earlier one that is late still tries.
//
// That is by the fencing token. A holder first prepares, and from then on the store refuses every
// holder with a lower token: what it has seen stays as it was unless it writes itself. A store
// needs no more for it than to compare two numbers.
//
// A record is durable memory, so it is kept by one store that does not forget. One over several
// servers is none: they may lose it one by one, each time in a way that its leases survive.
//
// A store that takes no more than so many bytes of data in a record says so by a method
// MaxRecord() int, and answers a larger one with [ErrRejected].
//
// What is said of [Store] is true here: batches, answers in order,
// ctx, and [StatusUnknown] for every doubt.
type Recorder interface {
	Store

	// Prepare begins the term of a holder of each name, and reads its record: [StatusHeld], unless
	// a holder with a higher token has prepared before, which is [StatusTaken]. With [Term.Data] it
	// may write the holder's first record, and then shows that. It may be repeated.
	Prepare(ctx context.Context, terms []Term) []Seen

	// Read reads the record of each name, and changes nothing: [StatusHeld].
	Read(ctx context.Context, names []string) []Seen

	// Write replaces each record whose term is the writer's: [StatusHeld]. It answers
	// [StatusTaken] if a holder with a higher token has prepared since, [StatusGone] if the
	// term is not there: it has lapsed, or never began; and [StatusBehind] if a write of
	// the same holder with a higher Seq, or one of the same Seq and other data, has come
	// before. A write repeated as it was is StatusHeld again. A write with Erase removes
	// the record and ends the term on the same conditions; repeated, it is StatusGone.
	Write(ctx context.Context, records []Record) []Answer
}

// Term is the time in which one holder may write the record of a name.
type Term struct {
	// Name is that of the lock.
	Name string
	// Fence is the holder's fencing token: positive.
	Fence int64
	// TTL is how long the term lives if there is no record: whole milliseconds, at least 1. A
	// record keeps its own.
	TTL time.Duration
	// Data, unless it is "", is the holder's first record, to live for TTL. It is written, with Seq
	// 1, if the record is still the one that the holder has read before: the one of After.
	// Otherwise nothing but the term begins.
	Data string
	// After is who wrote the record that Data is to follow, and its number: the Fence and the Seq
	// of what Read has shown, 0 and 0 for none. Below Fence.
	After struct{ Fence, Seq int64 }
}

// Seen is what [Recorder] Prepare and Read show of a record.
type Seen struct {
	Status Status
	// Fence is the token of who wrote the record, when StatusHeld; 0 if there is none.
	Fence int64
	// Seq is the record's number among those that this holder wrote.
	Seq int64
	// Data is the record.
	Data string
	// TTL is how long the record lives unless it is written anew; 0
	// if there is none, or if the store can't tell.
	TTL time.Duration
	// Now is the store's own time when it answered, when StatusHeld. Programs whose clocks differ
	// have it in common. It may go back, as any clock may, by a fail-over to another server.
	Now time.Time
	// Err says why, when StatusUnknown.
	Err error
}

// Record is what a holder of a name leaves for those who come later.
type Record struct {
	// Name is that of the lock.
	Name string
	// Fence is the fencing token of the holder.
	Fence int64
	// Seq numbers the holder's records of this name, from 1 on and below 2^52, each above the
	// last. If what Prepare has shown is under this Fence, it goes on from that one's Seq.
	Seq int64
	// Data is any bytes. It is a string, which cannot change
	// while slow servers are still being told.
	Data string
	// TTL is how long the record and its term live: whole milliseconds, at least 1. Ignored with
	// Erase.
	TTL time.Duration
	// Erase has the name be as if it had never been prepared: no record, no term. It is for a
	// holder that has nothing to tell, so that its name takes no space. Data is ignored then.
	Erase bool
}
