// Package history judges what processes have told of their locks.
//
// # What a process tells
//
// Every [Event] is written to a pipe by one write(2) before the process goes on, so that
// kill -9 loses nothing that the process acted on: an acquire is told before it is made, and
// a deadline before the engine hears of it, since the engine's store is wrapped and tells
// what it hands on. All times are CLOCK_MONOTONIC's, which processes of one machine share.
//
// # Belief
//
// A lease is believed in from Acquire's return to the first of: Release is called, the
// context is seen to have ended, the process is killed. A process that was paused
// believes no longer than the deadline that it has published, since Valid is right on its
// first instruction afterwards; what it does between a look at Valid and the act is what
// fencing is for. The published deadline is derived from when the request was
// handed to the store, which is at most a few microseconds after the instant from which
// the engine counts: too long rather than too short, so that no violation is hidden, and
// well within Config.Margin of what the store holds, so that none is made up.
//
// A lease that was broken, or replaced by a newer call, is believed in for longer than its context
// lives: until Release is called, or the deadline has passed. Nobody is to have the name sooner,
// since its operation may still be at work. The exception is a break by force, which no process
// here asks for, unless that is the flaw to be found.
//
// A process that was not paused gets no such allowance: if its
// context ends late, its belief was too long.
package history
