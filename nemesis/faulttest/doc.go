// Package faulttest proves the engine on real Redis servers while links and
// servers fail: partitions, frozen, killed, loading, full and read-only servers,
// lost replies, and processes killed in the middle. It holds tests only.
//
// The server is the judge throughout: whether a key exists, whose it is and when it
// expires is asked of Redis itself, on a connection that no fault touches. Servers and
// clients share a machine here, so that the server's wall clock and the test's are one.
//
// Moments are random; each test logs its seed, and LOCKBEAT_FAULT_SEED
// sets it, which repeats the choices though not the scheduling.
package faulttest
