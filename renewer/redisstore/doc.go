// Package redisstore keeps the locks of [renewer] in one Redis deployment: a
// single server, one behind Sentinel, or a cluster. It speaks to Redis 6.2 or
// later and to Valkey, through rueidis.
//
//	redis, err := redisstore.FromEnv() // or FromURL("redis://localhost:6379")
//	store, err := redisstore.Open(ctx, redis)
//	keeper, err := renewer.New(store, renewer.Config{})
//	…
//	keeper.Shutdown(ctx) // with some seconds left
//	store.Close()
//
// [New] makes a store on a client of your own.
//
// # Authority
//
// The server alone decides who has a lock, by its own clock: a lock is a key
// with a TTL. Every operation is one Lua script, and compares the owner token
// before it changes anything.
//
//	free --acquire--> held by A
//	held by A --renew by A-->            held by A, TTL anew
//	held by A --acquire by A-->          the same grant again (its reply was lost)
//	held by A --acquire by B-->          refused; B hears who has it, and for how long
//	held by A --release by A-->          free, or held by the first in line, which is told
//	held by A --deleted from outside-->  free; told at A's next heartbeat or release
//	held by A --TTL passes-->            free, untold: waiters have timers of their own
//
// # Outcomes
//
// What is not answered is not known, and is never taken for a grant or for a
// loss:
//
//	the server says                    a request gets
//	the lock is another's              StatusTaken, with the holder and the time left
//	the key is gone (renew, release)   StatusGone
//	nothing, in time                   StatusUnknown, and the error
//	LOADING, READONLY, CLUSTERDOWN,    StatusUnknown: it may pass by itself
//	  TRYAGAIN, MASTERDOWN, and a
//	  login that is refused
//	OOM, BUSY, MISCONF                 StatusUnknown and renewer.ErrOverloaded: the server is up
//	no rights, a key of another type   StatusUnknown and renewer.ErrRejected: it needs an operator
//
// A request whose turn never came, behind others of this process, was not sent
// ([store.ErrNotSent]).
//
// # What to watch out for
//
//   - Keys begin with [Prefix]. Give each service one of its own, and a user with the rights on it
//     alone. [New] says which right is missing.
//   - Replication is asynchronous: a fail-over can lose a grant. [Replicas]
//     narrows that window, and a fencing token closes it: see [renewer.Lease.Fence].
//   - A server that evicts keys, or restarts without its data, forgets locks.
//   - A client of your own needs the options that [ClientOption] sets: with rueidis' defaults it
//     notices a dead connection too late.
//   - A lone caller who cancels while the server hangs may wait for the client's ConnWriteTimeout;
//     a deadline is kept to.
//   - A waiter that hangs has the lock when its turn comes, for a TTL, as a holder does that hangs.
//   - Tokens rise by the server's clock and one mark of its own. If it loses its data, don't set
//     the clock back.
//
// Keys, rights and Sentinel:
// https://github.com/lockbeat/lockbeat/blob/main/docs/redis.md
package redisstore
