package store

import (
	"context"
	"time"
)

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
