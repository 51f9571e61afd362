// Command siege holds an HTTP server with locks under attack from 10,000 connections, and measures
// what honest clients beside them notice.
//
//	go run ./siege                 # two minutes, after a look at the same server in peace
//	go run ./siege -n 500 -for 10s # a small one
//
// Three processes: the server, the attackers, and this one, which has the honest clients. The
// attackers are slow (headers or bodies that come byte by byte), leave (while they wait, or with
// a byte of body unsent), ask for too much (thousands of names in a request, bodies that stop
// once the lock is had, new idempotency keys), or are just there. All ask for the accounts that
// the honest clients use, except those that hold a lock of their own for as long as they may.
//
// It ends with status 1 if the honest clients' p99 (the median of those of ten seconds each) is
// above three times that in peace, if one of their requests fails, if a lease is lost, or if the
// server's memory or goroutines grow.
package main
