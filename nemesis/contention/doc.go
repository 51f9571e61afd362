// Package contention holds one table of what becomes of an operation whose lock is not
// simply free, and runs it, as a test, against every adapter: asynq, net/http and gRPC,
// through their own servers and clients, on real Redis servers. The adapters say the same
// things in different words; that they do is shown here, once. There is nothing to import.
package contention
