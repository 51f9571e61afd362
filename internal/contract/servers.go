// Package contract is the part of a store's contract that only our own stores
// keep to. What every store keeps to is package renewer/store.
package contract

import (
	"time"

	"github.com/lockbeat/lockbeat/renewer/store"
)

// Tuned is a store whose connections are made for leases of some TTL. With
// shorter ones it would notice a dead connection too late to renew on another,
// so renewer.New refuses them.
type Tuned interface {
	// LeastTTL returns the shortest TTL that the store is made for; 0 if it
	// does not know.
	LeastTTL() time.Duration
}

// Sharded is a store whose names are spread over servers that fail one by one.
// The engine puts names of different shards into different heartbeats, so that
// a shard that does not answer holds up no other's.
type Sharded interface {
	store.Store

	// Shard returns on which server a name is: a number from 0, not much higher
	// than there are servers. It is a hint that may be wrong and may change;
	// names of which it is not known are together on any. It is called for
	// every heartbeat of every lease, with a lock held: it must return at once
	// and not call the engine.
	//
	// To learn whether a shard is back that does not answer, the engine claims
	// a name of its own on it: it tries names that begin as one did that was
	// asked for in vain.
	Shard(name string) int
}
