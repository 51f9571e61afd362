// Command bench measures what Lockbeat costs, beside other libraries in the same run, and prints
// Markdown tables.
//
//	go run .                      everything, in about nine minutes
//	go run . -run cycles          a section: cycles, onekey, crowd, hold, wait, limits, slots
//	go run . -who Lockbeat        without the other libraries
//	go run . -before ../../old    compare with another checkout: ratios, after ÷ before
//	go run . -short               a smoke test in seconds
//
// A figure from one machine says little about another; a ratio within one run says more. So all
// contestants take turns in each round, in processes of their own, and the median of the rounds
// counts. docs/benchmarks.md says how each figure is measured.
//
// Every run starts private redis-server processes on free loopback ports, without persistence, and
// ends them. The exit status is 1 if Lockbeat failed, lost a lock, or let two run at once. It needs
// Linux, for CLOCK_MONOTONIC, which all processes share.
package main
