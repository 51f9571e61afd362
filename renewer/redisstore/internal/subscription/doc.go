// Package subscription keeps the one subscription that a process has of its
// own: one connection to a server, or one to each server of a cluster, on which
// the process can be told what happens to locks that it does not hold.
//
// What it promises: from when a watch begins until it is stopped, every message
// on its channel for this process wakes it. While there is no subscription (at
// first, after a lost connection, after a move to another server) messages pass
// unheard; so a watch is woken once when there is one again.
//
// A subscription ends with its connection, never by itself: when nothing is
// watched, or when much that is subscribed to is not watched any more.
//
// It knows channels and messages, and no lock. What a message means is the
// caller's to say.
//
// The files, from the caller down to the wire:
//
//	subscriber.go  Subscriber: what is watched, and on which server
//	loop.go        the goroutine of a server: it keeps a connection while anything is watched
//	session.go     one connection, from dialling to its end
//	server.go      what is wanted on a server, and what its connection has
//	channel.go     a channel and its watches
//	config.go      what a Subscriber is made of
//
// Callers only note what they want, under one mutex (Subscriber.mu, which
// guards all of channel.go and server.go), and never wait for the network.
// Watches are called with it free.
package subscription
