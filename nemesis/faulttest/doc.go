// Package faulttest proves the engine on real Redis servers while links and servers fail:
// partitions, frozen, killed, full and read-only servers, lost replies, fail-overs, moving slots.
// It holds tests only.
//
// The server is the judge throughout: whether a key exists, whose it is and when it expires is
// asked of Redis itself, on a connection that no fault touches. Servers and clients share a machine
// here, so that the server's wall clock and the test's are one. Belief is judged by deadlines, not
// by when a goroutine came to hear of them, so that a busy machine fails no test.
package faulttest
