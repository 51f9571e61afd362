// Package repeat carries out once what clients send more than once, whatever
// the protocol. It is what package idempotent and grpcmw.Idempotent share:
// which request is which, the lock and the record of package once, the work
// that outlives its client, stored answers and what they may take. The adapters
// know how a request is read, how its handler is run, and how an answer is
// written.
package repeat

// The files, in the order in which to read them. A file uses those below it
// only.
//
//	do.go        a request is carried out, or gets its stored answer
//	record.go    what package once is told
//	request.go   which request it is
//	outlive.go   when the client has gone
//	quota.go     what each caller may have
//	seal.go      answers, encrypted
//	key.go       the Idempotency-Key
//	settings.go  what users set
