// Package redisstore keeps the locks of [renewer] in one Redis deployment: a
// single server, one behind Sentinel, or a cluster. It speaks to Redis 6.2
// or later and to Valkey, through a rueidis client that the caller owns.
//
//	option, err := redisstore.ClientOption(rueidis.ClientOption{InitAddress: []string{"redis:6379"}}, 15*time.Second)
//	client, err := rueidis.NewClient(option)
//	store, err := redisstore.New(client, redisstore.WriteTimeout(option.ConnWriteTimeout))
//	keeper, err := renewer.New(store, renewer.Config{TTL: 15 * time.Second})
//	…
//	keeper.Shutdown(ctx) // with some seconds left
//	store.Close()
//	client.Close()
//
// A client that is closed while it dials, with requests in flight, may leave that connection open
// until the process ends: rueidis does so. After a Shutdown that ran out of time on a dead link,
// wait for Dialer.Timeout before client.Close.
//
// # Authority
//
// The server alone decides who has a lock, by its own clock: a lock is a key with a
// TTL. Every operation is one Lua script, so that it happens wholly or not at all,
// and compares the owner token before it changes anything. TTLs travel as durations.
//
//	free --acquire--> held by A --renew by A--> held by A, TTL anew
//	                  held by A --acquire by A--> the same grant again (its reply was lost)
//	                  held by A --acquire by B--> refused, B hears who and for how long
//	                  held by A --release by A--> free, and published to those who watch
//	                  held by A --deleted from outside--> free; published when A's next heartbeat or release finds out
//	                  held by A --TTL passes--> free, and nobody is told: waiters have their own timers
//
// What is not answered is not known: a time-out, a lost connection, and every
// error of the server that may pass by itself (LOADING, READONLY, OOM, BUSY,
// CLUSTERDOWN, TRYAGAIN, MASTERDOWN) is [renewer.StatusUnknown], never "taken"
// and never "gone". An error that the server will repeat until somebody changes
// it (missing rights, a key of another type) is [renewer.ErrRejected] as well.
//
// # Keys
//
// For a lock "order:42", under the default prefix:
//
//	lockbeat:{order:42}         the lease: owner token, fencing token, time of the grant and holder, a line each; TTL that of the lock
//	lockbeat:{order:42}:fence   the last fencing token; TTL that of [FenceTTL], 24 h
//	lockbeat:{order:42}:freed   a channel: a message at each release, empty or with hashes of whose turn it is
//	lockbeat:{order:42}:line    owner tokens of processes that wait, in order of arrival; TTL a minute, or twice the lock's
//	lockbeat:{order:42}:record what holders leave for the next one (renewer.Recorder): two tokens, a number, and the data; TTL its own
//
// The braces are the hash tag: all of a lock's keys are in one slot. Control
// bytes, braces and percent signs of a name are written as %XX, so that a name
// chooses neither its slot nor another lock's key. No key is ever without a TTL.
//
// A channel's name shows the lock's, since both must share the slot: a user who may subscribe to
// patterns sees the names of locks that are released. Messages show no owner token. Hash what a
// name should not show.
//
// A fencing token is the greater of the last one plus 1 and the server's clock in
// microseconds. So it rises even if the counter is lost with FLUSHALL or a restart
// without persistence, for as long as the clock is not set back. A counter that is
// no number below 2^53-1, which only somebody else can have written, stops the
// lock with an error that names the key: deleting it lets the clock take over.
//
// # Rights
//
// Give each service a prefix and a user of its own. The smallest user that serves, here for the
// default prefix, as one line:
//
//	ACL SETUSER locks reset resetchannels on >PASSWORD ~lockbeat:{* &lockbeat:{*
//	  +evalsha +eval +get +mget +set +del +pttl +pexpire +time +publish +subscribe +unsubscribe
//
// On each node of a cluster (before Redis 7 +publish, +subscribe and
// +unsubscribe in place of those with an s):
//
//	ACL SETUSER locks reset resetchannels on >PASSWORD ~lockbeat:{* &lockbeat:{*
//	  +evalsha +eval +get +mget +set +del +pttl +pexpire +time
//	  +spublish +ssubscribe +sunsubscribe +cluster|slots +cluster|shards
//
// Of the last two, Redis 8 and later need the second as well, and earlier
// ones only the first. Behind Sentinel, as for a single server and +role;
// and on the Sentinels, for Sentinel.Username of the client's options:
//
//	ACL SETUSER finder reset resetchannels on >PASSWORD &+sentinel &+slave &-sdown &+sdown &+switch-master &+reboot
//	  +sentinel|sentinels +sentinel|get-master-addr-by-name +subscribe +unsubscribe
//
// The brace in the patterns is the first byte of every key and channel behind the prefix:
// ~lockbeat:* would cover lockbeat:billing:{invoice} too, which is another service's. Both words,
// reset and resetchannels, are needed: with acl-pubsub-default allchannels, which is the default
// of Redis 6.2, a user begins with all channels, and reset gives them back to it.
//
// A user who may run scripts can run one that does not end, and all others wait: Redis has no bound
// for that. To grant +script|load in place of +eval would change nothing, as it brings any script
// to +evalsha. Services that don't trust each other get a server each.
//
// [Replicas] needs +wait. Others are optional: with +config|get, [New] warns when the server may
// evict locks, or goes on without a replica behind Sentinel; with +info, package quorum notices
// that it was given one server twice; with +zadd +zrem +zpopmin +zrange +exists, waiters stand in
// line (below). CONFIG GET also shows the server's own passwords (requirepass, masterauth), so
// grant it only to services that may know them. New finds a missing right, except for those to
// subscribe, which watches report. TLS is the client's TLSConfig, and for Sentinels
// Sentinel.TLSConfig: leave InsecureSkipVerify alone. No error and no log shows a password.
//
// # Crowds
//
// A process asks a server for at most 1,024 locks at the same time, or 256 on a cluster, and
// frees as many; further callers wait for their turn, within their own limits. So a heartbeat,
// which waits for no turn, is answered some milliseconds later beside any number of callers, as
// long as they leave the machine some processor time.
//
// # Changes
//
// The next heartbeat finds that the key of a lease has been deleted or overwritten, and its answer
// ends the lease: at most one [renewer.Config] Heartbeat later. Choose a shorter one where that is
// too long; it costs one command in a batch each. The heartbeat or the release that finds it wakes
// those who wait. A store has one connection besides the client's, for wake-ups, while a caller
// waits.
//
// A key that nobody will release, such as that of a process which hangs, can be freed by hand. DEL
// alone tells nobody: those who wait find out by their poll, 5 s later by default. Publish in the
// same step, here for redis-cli (SPUBLISH on a cluster since Redis 7; PUBLISH before):
//
//	EVAL "redis.call('DEL', KEYS[1]) return redis.call('PUBLISH', KEYS[1] .. ':freed', '')" 1 lockbeat:{order:42}
//
// Its holder, if it lives, hears of it by its next heartbeat; fence what two must not do at once.
//
// # Waiting
//
// Processes that wait for a lock stand in line on the server, in the order in which they came, and
// a release gives the lock to the first and tells it so in the same step: three commands a turn,
// however many wait. It has a second to claim the lock; if it has died meanwhile, the next one asks
// when that is over. Several that have died, one behind the other, cost a second each, and those
// who live may sleep until their poll before they notice. A lock that lapses, since its holder has
// died, goes to the caller who asks first. An acquire that finds the lock free costs nothing of
// this, and neither does TryAcquire.
//
// Without the rights for it, and on a cluster, where a slot that moves would
// take the line apart from its lock, all who wait are woken at each release,
// and one of them has it. Let all programs that share a lock have the same
// rights: those who can't stand in line get their turn when it is empty.
//
// # Cluster
//
// Give the client the address of one node or more, and leave ForceSingleClient unset:
// it finds the others. New refuses a client that takes a node of a cluster for a single
// server, as one with a single address silently does if it may not ask for the slots.
//
// Each shard has pipelines of its own, so that one that does not answer holds up no
// lock of the others: see [Store.Shard]. What Redis itself does about such a shard
// is up to its settings: with cluster-require-full-coverage, which is on by default,
// every node refuses everything (CLUSTERDOWN) once a primary without a replica has
// been gone for cluster-node-timeout. Give each primary a replica, or turn that off.
//
// While a slot is being moved, its locks that are held go on being renewed and
// released wherever their keys are. One that is free can't be had until the slot
// has arrived, as its two keys can be on different nodes (TRYAGAIN): an acquire
// that may wait does, and one that may not is told that the store is unavailable.
//
// Messages of releases stay in the lock's shard (SPUBLISH) on Redis 7 and later. Earlier, each
// goes to all nodes, which costs every one of them about 2 us a release (BenchmarkMessages).
//
// # Sentinel
//
// Give the client the Sentinels' addresses and Sentinel.MasterSet. A fail-over is a time
// without answers: leases outlast it if it takes less than what lies between a missed
// heartbeat and the end of belief, about half of the TTL. So let the TTL be more than twice
// as long as down-after-milliseconds and the few seconds that the Sentinels take to agree.
//
// A client that still reaches the former primary, and no Sentinel, goes on to lock there what
// others have by the new one: nothing in a client helps against that. Set min-replicas-to-write 1,
// and min-replicas-max-lag to at most half of the TTL, on all servers: a primary that has lost its
// replica refuses to write then. New warns where it may look.
//
// # Client options
//
// Any rueidis client works; [ClientOption] completes its options for locks and says
// why. With rueidis' own defaults a cancelled call may go on until its deadline, and
// closes a connection that others use; a dead connection is noticed only after 12 s.
//
// Watches share one connection besides those of the client's pipeline, taken from
// its pool for blocking commands, and only while something is watched; of a cluster,
// one to each node with a lock that is watched. A client forced to RESP2 needs two.
//
// # What Redis can't promise
//
//   - Replication is asynchronous. A grant that the primary confirmed and had not yet passed on is
//     lost in a fail-over, and the next owner gets the lock while the first believes in it, until
//     its next heartbeat. Usually the window is a round trip between the two; while the replica is
//     cut off it is as long as that lasts. [Replicas] closes it for grants, at the price of that
//     round trip (70 us on loopback: BenchmarkReplicas). It stays open for renewals: a lease whose
//     last one was not passed on lapses up to a heartbeat early, which matters if the new primary
//     can't be asked before. Fence what must not happen twice: see [renewer.Grant].
//   - TTLs are passed on as points in time: replicas whose clock is ahead of
//     the primary's make leases lapse early by that much after a fail-over.
//   - A server without persistence that restarts within a TTL has
//     forgotten the locks. The fencing tokens rise all the same.
//   - A server that evicts (maxmemory-policy other than noeviction) may throw a lock away
//     when its memory is full. Keep locks on one that does not; New warns where it may look.
//   - A server that is frozen and goes on (SIGSTOP, a paused virtual
//     machine) executes what waits in its sockets, an acquire long
//     given up by its caller included. That lock lapses with its TTL.
//   - A server that is none, or somebody between us and it, can grant any lock to anybody, and
//     end the process: rueidis panics, in a goroutine of its own, when a server sends a reply
//     too many or a length below 0. Use TLS, with verification, where others can reach the line.
//   - Redis keeps expiry by its wall clock. One that is stepped forward makes leases
//     lapse early by the step; their holders hear of it by their next heartbeat. Let
//     the server's clock be slewed, as time servers do by default while it runs.
//   - A clock of the server that is set back, and a fence counter
//     lost at about the same time, make tokens fall.
//
// A store over several independent servers (renewer/quorum) outlives
// what becomes of one: a fail-over, a restart, an eviction.
package redisstore
