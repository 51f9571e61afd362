package once

import (
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

type Record = record

var DecodeRecord = decodeRecord

func NewRecord(how string, attempts int, last renewer.Holder, input, result string) Record {
	return record{state: state(how), attempts: attempts, last: last, input: input, result: result}
}

// WithNote returns the record with a note behind the node's name.
func (r Record) WithNote(kept, pause time.Duration, typ string) Record {
	r.note = note{kept, pause, typ}
	return r
}

func (r Record) Rest(left time.Duration) time.Duration { return r.note.rest(left) }

func TagOf[T any]() string { return tagOf[T]() }

func (r Record) Encode() string { return r.encode() }
