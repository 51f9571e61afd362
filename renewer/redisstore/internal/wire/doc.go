// Package wire is how requests reach the servers, by the caller's own client,
// and their replies the ones who asked. It knows commands, slots and shards,
// and no lock.
//
// What it promises: a command is sent again only where it has had no effect, or
// where the server answers what it has done as before ([Job] Repeatable). A
// caller gets its own answer, and returns when its context ends, though the
// server, or another caller's dial, does not. What was not sent says so
// ([ErrNotSent]). All connections are the client's: it alone says which server
// is the primary.
//
// A request goes down by
//
//	coalesce.go  callers who meet share a command
//	spread.go    by shard, each in a pipeline of its own
//	window.go    no more at once than a server does in some ms
//	send.go      one pipeline, or a lone caller's own connection; sent again where that is safe
//	apart.go     a connection, or a server, of its own
//	dialing.go   none waits for a connection longer than its context says
//	hangup.go    a connection that leads to a replica is given up
package wire
