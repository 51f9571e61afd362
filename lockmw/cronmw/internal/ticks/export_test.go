package ticks

import "time"

// For tests.
var DecodeRecord = decodeRecord

// Keep is keep.
func (r Record) Keep(grace time.Duration) time.Duration { return r.keep(grace) }

// Encode is encode.
func (r Record) Encode() string { return r.encode() }
