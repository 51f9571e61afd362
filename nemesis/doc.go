// Command nemesis puts Lockbeat under fire: worker processes contend for locks
// on a real Redis deployment while leases are broken, processes are killed and
// frozen, links are cut and servers fail, and every belief in a lock is checked
// afterwards.
//
//	go run .                                     every deployment, in about five minutes
//	go run . -deployment quorum3 -seed 7 -v      one of them, by another plan, told as it goes
//	go run . -faults kill-worker,blackhole       those faults only
//	go run . -flaw deaf-renewal                  with a lock broken on purpose: it must fail
//
// The exit status is 1 if a promise was broken, and the command that
// runs the same again is printed. It needs Linux.
package main
