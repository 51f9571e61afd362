package renewer

import (
	"time"

	"github.com/lockbeat/lockbeat/renewer/store"
)

// The contract of a store under its former names.
type (
	Store    = store.Store
	Sharded  = store.Sharded
	Claim    = store.Claim
	Hold     = store.Hold
	Grant    = store.Grant
	Answer   = store.Answer
	Holder   = store.Holder
	Status   = store.Status
	Recorder = store.Recorder
	Term     = store.Term
	Seen     = store.Seen
	Record   = store.Record
)

const (
	StatusUnknown = store.StatusUnknown
	StatusHeld    = store.StatusHeld
	StatusTaken   = store.StatusTaken
	StatusGone    = store.StatusGone
	StatusBehind  = store.StatusBehind
	StatusChanged = store.StatusChanged

	MaxName  = store.MaxName
	OwnerLen = store.OwnerLen
)

// Millis is [store.Millis].
func Millis(d time.Duration) (int64, error) { return store.Millis(d) }
