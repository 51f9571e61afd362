package repeat

import (
	"time"

	"github.com/lockbeat/lockbeat/lockmw/internal/maxhold"
	"github.com/lockbeat/lockbeat/lockmw/once"
)

// Defaults of the settings, which the adapters' docs tell.
const (
	DefaultMaxAnswer  = 64 << 10
	DefaultMaxRunning = 64
)

// Settings are what users set, by the adapters' options of the same names.
type Settings struct {
	Scope         string
	MaxWaiters    int
	WaitForAnswer time.Duration // 0: none
	FinishWithin  time.Duration
	MaxRunning    int // of each caller
	KeepAnswer    time.Duration
	MaxAnswer     int
	MaxStored     int64
	Seal          Sealer
	Recorder      once.Recorder // nil: the keeper
	MaxHold       maxhold.Setting
}

// Defaults returns the settings of an adapter of which so many requests may wait for one answer.
func Defaults(maxWaiters int) Settings {
	return Settings{
		MaxWaiters: maxWaiters, FinishWithin: time.Minute, KeepAnswer: 24 * time.Hour,
		MaxAnswer: DefaultMaxAnswer, MaxStored: 64 << 20, MaxRunning: DefaultMaxRunning,
	}
}

// Transactional reports whether a handler writes in one transaction with the record of its answer.
// Then no final answer may go out before it is on record: a transaction that is
// rolled back undoes what the answer says.
func (s *Settings) Transactional() bool {
	_, yes := s.Recorder.(once.Transactional)
	return yes
}
