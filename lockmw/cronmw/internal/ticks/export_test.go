package ticks

// For tests.
var DecodeRecord = decodeRecord

// Encode is encode.
func (r Record) Encode() string { return r.encode() }
