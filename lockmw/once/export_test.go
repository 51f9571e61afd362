package once

import (
	"time"

	"github.com/lockbeat/lockbeat/renewer/store"
)

type Record = record

const (
	DefaultMaxAttempts = defaultMaxAttempts
	MaxInput           = maxInput
	MaxConflicts       = maxConflicts
)

var DecodeRecord = decodeRecord

func NewRecord(how string, attempts int, last store.Holder, input, result string) Record {
	return record{state: state(how), attempts: attempts, last: last, input: input, result: result}
}

// WithDetails returns the record with details.
func (r Record) WithDetails(kept, pause time.Duration, typ string) Record {
	r.details = details{kept, pause, typ}
	return r
}

func (r Record) Rest(left time.Duration) time.Duration { return r.details.rest(left) }

func TagOf[T any]() string { return tagOf[T]() }

func (r Record) Encode() string { return r.encode() }
