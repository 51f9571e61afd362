// Command bench measures what Lockbeat costs, beside a floor and a
// peer in the same run, and prints Markdown tables.
//
//	go run .                   everything, in about seven minutes
//	go run . -run cycles       one section: leases, cycles, server, overhead or load
//	go run . -peers            every other library beside Lockbeat, in about forty minutes
//	go run . -peers -run crowd -row handoffs -sizes 2,64
//	                           a part of a section, which is not written anywhere
//	go run . -short            a smoke test in seconds; targets are not judged
//	go run . -profile DIR      CPU and heap profiles beside the figures
//
// A figure from one machine says little about another; a ratio within one run says more. The
// floors are what a user could write by hand with rueidis: of leases, the same Lua scripts with
// nothing of ours around them; of cycles, those, and SET NX PX with a script that compares and
// deletes, each by whichever way to connect is the fastest for the number of goroutines. The peer
// is rueidislock with the settings that suit it best: one key a lock (majority 1), NOLOOP
// tracking, which spares it its own invalidations, and a second in place of 20 ms for a request,
// so that a busy machine costs it no lock.
//
// Every run starts private redis-server processes on free loopback ports, without
// persistence, and ends them. Targets that are missed are marked, and make the
// exit status 1. It needs Linux, whose /proc tells the peak memory of a process.
package main
