// Command bench measures what Lockbeat costs, beside other libraries in the
// same run, and prints Markdown tables.
//
//	go run .                      everything, in a quarter of an hour
//	go run . -run cycles          a section: see below
//	go run . -who Lockbeat        without the other libraries
//	go run . -before ../../old    compare with another checkout: ratios, after ÷ before
//	go run . -short               a smoke test in seconds
//
// A figure from one machine says little about another; a ratio within one run
// says more, and instructions are the same under any load. So all contestants
// take turns in each round, in processes of their own, and the median of the
// rounds counts. All cores are kept awake (awake.go); where they cannot be, the
// first line says so. A library that fails or hangs is named below the tables.
//
// Every run starts private redis-server processes on free loopback ports,
// without persistence, and ends them. The exit status is 1 if Lockbeat failed,
// lost a lock, or let two run at once. It needs Linux, for CLOCK_MONOTONIC,
// which all processes share.
//
// # Contestants
//
// By hand is SET NX PX and a script that compares and deletes, and nothing
// else. Synchronous is a pool of connections, each for one request at a time;
// pipelined is one that all share; with MaxFlushDelay, each write waits 20 µs
// for more requests. The best of these counts. The others are each at their
// best. rueidislock: one key a lock (majority 1), NOLOOP tracking, a second for
// a request in place of 20 ms. redsync: its own delays of 50 to 250 ms, and no
// end of tries. bsm/redislock: a try each 100 ms, as its documentation shows.
//
// # Sections
//
//   - cycles: each goroutine takes and frees a lock of its own, in slices of 0.1 s, by a context
//     that nothing can cancel, since rueidis pipelines for any other. Redis CPU is the server's
//     processor time.
//   - onekey: every goroutine of every process takes and frees the same lock for a second; 16
//     goroutines for three, 64 processes for six. Longest wait includes those who still wait when
//     time is up: if some never had it, theirs was longer. The Jain index is 1 if all got it as
//     often, and 1/n if one got it always.
//   - crowd: 300 callers in two processes want one lock at once, for 5 ms each; then asynq's tasks
//     of 20 ms on two servers of 20 workers, one for each user, or three for each tenant and 20 in
//     all. Ideal is the time of the work alone. Out of order: begun before three earlier ones.
//   - hold: a process holds many locks for 10 s and renews them. Lockbeat renews every third of the
//     TTL, rueidislock every half. Bytes a lock are of the live heap.
//   - wait: from the return of a release to the lock of the next one, whose client is another. Its
//     message lost: a proxy drops what should wake it. One in front dead: the process before it in
//     line was killed.
//   - limits: limits that never bind, as in cycles. At most 16: each goroutine has a limit of its
//     own; one of 100,000: all share one. Beside them, as scripts on rueidis, with the client's
//     clock and without a line, heartbeat or token: a sorted set, a counter, redisson's permits.
//   - slots: 64 processes want one lock, and then 4 slots of one limit. Killed: two processes have
//     the slots of a limit of 2, TTL 1 s, a third waits, and one of the two is killed: from the end
//     of its TTL, as the server has it, to the slot of the third. Hot: 64 goroutines of a process
//     want a limit. More callers than slots: a limit of 100, operations of 100 ms, a round trip of
//     2 ms; ideal is 1,000 a second.
//   - break: from a call of Break, or of another with Replace, to the end of the holder's context
//     (told); and from the return of its operation to the lock of the next one. The holder is past
//     its first heartbeat.
//   - instructions: those that a server executes under valgrind's callgrind, but for what it does
//     once a second; and the bytes of its AOF. One caller at a time, warm: a cycle of each library;
//     a lock that goes from one client to another who stands in line, and back; a heartbeat of 100
//     leases. What is kept in instructions.go bounds Lockbeat's: the exit status is 1 beyond 3 %.
//
// With -before another checkout, which must have this program, and this one
// measure Lockbeat in turn, a round each, five times (-rounds). Least and most
// are the ratios of single rounds: where 1 lies between them, the difference
// may be the machine's.
//
// Several servers are measured by go test -bench . -run '^$' ./renewer/quorum.
package main
