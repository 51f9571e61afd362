package once

import "github.com/lockbeat/lockbeat/renewer"

type Record = record

var DecodeRecord = decodeRecord

func NewRecord(how string, attempts int, last renewer.Holder, input, result string) Record {
	return record{state(how), attempts, last, input, result}
}

func (r Record) Encode() string { return r.encode() }
