// Package redisstore keeps the locks of [renewer] in one Redis deployment: a single server, one behind Sentinel, or a cluster.
// It speaks to Redis 6.2 or later and to Valkey, through a rueidis client that the caller owns.
//
//	option, err := redisstore.ClientOption(rueidis.ClientOption{InitAddress: []string{"redis:6379"}}, 15*time.Second)
//	client, err := rueidis.NewClient(option)
//	store, err := redisstore.New(client, redisstore.WriteTimeout(option.ConnWriteTimeout))
//	keeper, err := renewer.New(store, renewer.Config{TTL: 15 * time.Second})
//	…
//	keeper.Shutdown(ctx)
//	store.Close()
//	client.Close()
//
// # Authority
//
// The server alone decides who has a lock, by its own clock: a lock is a key with a TTL. Every operation is one Lua script, so
// that it happens wholly or not at all, and compares the owner token before it changes anything. TTLs travel as durations.
//
//	free --acquire--> held by A --renew by A--> held by A, TTL anew
//	                  held by A --acquire by A--> the same grant again (its reply was lost)
//	                  held by A --acquire by B--> refused, B hears who and for how long
//	                  held by A --release by A--> free, and published to those who watch
//	                  held by A --TTL passes--> free, and nobody is told: waiters have their own timers
//
// What is not answered is not known: a time-out, a lost connection, and every error of the server that may pass by itself
// (LOADING, READONLY, OOM, BUSY, CLUSTERDOWN, TRYAGAIN, MASTERDOWN) is [renewer.Unknown], never "taken" and never "gone". An
// error that the server will repeat until somebody changes it (missing rights, a key of another type) is [renewer.ErrRejected]
// as well.
//
// # Keys
//
// For a lock "order:42", under the default prefix:
//
//	lockbeat:{order:42}        the lease: owner token, fencing token, time of the grant and holder, a line each; TTL that of the lock
//	lockbeat:{order:42}:fence  the last fencing token; TTL that of [FenceTTL], 24 h
//	lockbeat:{order:42}:freed  a channel: an empty message at each release
//
// The braces are the hash tag: all of a lock's keys are in one slot. Control bytes, braces and percent signs of a name are
// written as %XX, so that a name chooses neither its slot nor another lock's key. No key is ever without a TTL.
//
// A fencing token is the greater of the last one plus 1 and the server's clock in microseconds. So it rises even if the
// counter is lost with FLUSHALL or a restart without persistence, for as long as the clock is not set back. A counter that is no
// number below 2^53-1, which only somebody else can have written, stops the lock with an error that names the key: deleting it
// lets the clock take over.
//
// # Rights
//
// The smallest user that serves, here for the default prefix:
//
//	ACL SETUSER locks on >PASSWORD ~lockbeat:* &lockbeat:*
//	  +evalsha +eval +get +mget +set +del +pttl +pexpire +time +publish +subscribe +unsubscribe
//
// A cluster needs +cluster|slots besides, without which a client with one address takes it for a single server. +config|get is
// optional: with it, [New] warns when the server may evict locks. New finds a missing right, except for that to subscribe,
// which watches report.
//
// # Client options
//
// Any rueidis client works; [ClientOption] completes its options for locks and says why. With rueidis' own defaults a cancelled
// call may go on until its deadline, and closes a connection that others use; a dead connection is noticed only after 12 s.
//
// Watches share one connection besides those of the client's pipeline, taken from its pool for blocking commands, and only
// while something is watched. A client forced to RESP2 needs two.
//
// # What Redis can't promise
//
//   - Replication is asynchronous. A grant that the primary confirmed and had not yet passed on is lost in a fail-over, and the
//     next owner gets the lock while the first believes in it. Fence what must not happen twice: see [renewer.Grant].
//   - A server without persistence that restarts within a TTL has forgotten the locks. The fencing tokens rise all the same.
//   - A server that evicts (maxmemory-policy other than noeviction) may throw a lock away when its memory is full. Keep locks
//     on one that does not; New warns where it may look.
//   - A server that is frozen and goes on (SIGSTOP, a paused virtual machine) executes what waits in its sockets, an acquire
//     long given up by its caller included. That lock lapses with its TTL.
//   - A clock of the server that is set back, and a fence counter lost at about the same time, make tokens fall.
//
// A store over several independent servers takes the first three away.
package redisstore
