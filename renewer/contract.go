package renewer

import (
	"time"

	"github.com/lockbeat/lockbeat/renewer/store"
)

type (
	// Store is [store.Store].
	Store = store.Store
	// Sharded is [store.Sharded].
	Sharded = store.Sharded
	// Claim is [store.Claim].
	Claim = store.Claim
	// Hold is [store.Hold].
	Hold = store.Hold
	// Grant is [store.Grant].
	Grant = store.Grant
	// Answer is [store.Answer].
	Answer = store.Answer
	// Holder is [store.Holder].
	Holder = store.Holder
	// Status is [store.Status].
	Status = store.Status
	// Recorder is [store.Recorder].
	Recorder = store.Recorder
	// Term is [store.Term].
	Term = store.Term
	// Seen is [store.Seen].
	Seen = store.Seen
	// Record is [store.Record].
	Record = store.Record
)

const (
	// StatusUnknown is [store.StatusUnknown].
	StatusUnknown = store.StatusUnknown
	// StatusHeld is [store.StatusHeld].
	StatusHeld = store.StatusHeld
	// StatusTaken is [store.StatusTaken].
	StatusTaken = store.StatusTaken
	// StatusGone is [store.StatusGone].
	StatusGone = store.StatusGone
	// StatusBehind is [store.StatusBehind].
	StatusBehind = store.StatusBehind

	// MaxName is [store.MaxName].
	MaxName = store.MaxName
	// OwnerLen is [store.OwnerLen].
	OwnerLen = store.OwnerLen
)

// Millis is [store.Millis].
func Millis(d time.Duration) (int64, error) { return store.Millis(d) }
