package history

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Kind is what an [Event] tells of.
type Kind string

// The kinds. Those of one acquisition carry its Op; those of the store carry the owner token.
const (
	// Ask: Acquire was called.
	Ask Kind = "ask"
	// Got: Acquire returned a lease.
	Got Kind = "got"
	// Not: Acquire returned an error.
	Not Kind = "not"
	// Valid: the lease was valid, by its own word until Until; At is from before it was asked.
	Valid Kind = "valid"
	// Over: the lease's context was seen to have ended before Release was called.
	Over Kind = "over"
	// Broken: the same, because the lease was broken or replaced. Nobody else is to have the name
	// until the operation has returned, or the deadline has passed.
	Broken Kind = "broken"
	// Freeing: Release was called.
	Freeing Kind = "freeing"
	// Freed: Release returned.
	Freed Kind = "freed"
	// Granted: the store has granted a claim that was sent at At;
	// Fence to Top are its owner's, until Until.
	Granted Kind = "granted"
	// Extended: the store has confirmed a renewal that was sent at Sent; At is when that
	// was known, Until the new deadline.
	Extended Kind = "extended"
	// Refused: the store has answered a renewal that the lease is broken, or gone. At is when that
	// was known.
	Refused Kind = "refused"
	// Broke: the store has confirmed, by At, that the lease with the token Fence is broken.
	Broke Kind = "broke"
	// Replaced: the store has confirmed, by At, that a call which asked at Sent is the newest. So
	// each lease of the name that had begun before Sent is broken.
	Replaced Kind = "replaced"
	// Paused: the process did not run, or hardly, from At to Until.
	Paused Kind = "paused"
	// Killed: the process was ended by kill -9. Its parent says so.
	Killed Kind = "killed"
)

// Event is one thing that happened in a process, at an instant of CLOCK_MONOTONIC in nanoseconds.
type Event struct {
	Kind  Kind   `json:"k"`
	At    int64  `json:"t"`
	Sent  int64  `json:"s,omitempty"`
	Op    int64  `json:"i,omitempty"`
	Name  string `json:"n,omitempty"`
	Owner string `json:"o,omitempty"`
	Fence int64  `json:"f,omitempty"`
	Top   int64  `json:"h,omitempty"`
	Until int64  `json:"u,omitempty"` // of an Ask, how long it may take
	Err   string `json:"e,omitempty"`
}

// Now is the instant, the same in all processes of a machine.
func Now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(fmt.Sprintf("history: CLOCK_MONOTONIC: %v", err)) // every Unix has it
	}
	return t.Nano()
}
