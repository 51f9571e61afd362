// Package quorum is a [renewer.Store] over several independent ones, its nodes: a
// lock is whose most of them say it is. It outlasts the failure of any minority,
// without the gap that a replica leaves when it takes over from its primary.
//
//	var nodes []renewer.Store
//	for _, client := range clients { // to three or five servers that know nothing of each other
//		node, err := redisstore.New(client)
//		nodes = append(nodes, node)
//	}
//	store, err := quorum.New(nodes, quorum.Names("redis-a", "redis-b", "redis-c"))
//	keeper, err := renewer.New(store, renewer.Config{TTL: 15 * time.Second})
//	…
//	keeper.Shutdown(ctx) // with some seconds left
//	store.Close()
//
// Nodes may be of any kind, also mixed: a memory.New() for each before there
// are servers, testutil/script in tests, a quorum. One node works too.
//
// # Authority
//
// No node alone decides. With n nodes, W = ⌊n/2⌋+1 that grant a claim with the
// same fencing token make it granted; K = n+1−W, which is as many for odd n, that
// hold it for its owner keep it valid. Any W nodes share one with any K, and that
// one can't be two owners'. Nodes are asked at once, in one call each for a batch.
//
//	                 W nodes grant one token                    K nodes hold it
//	asking all ───────────────────────────▶ granted ──────────▶ ◀─────┐
//	  │  ▲ │ │                                 │ └──── renewed by K ───┘
//	  │  │ │ └ a counter is higher: raise      ├── Release: freed on all, known when K have answered
//	  │  └─┘   the token, ask again            └── n−K+1 nodes say no, or no K confirm in time: lost
//	  │
//	  ├ n−W+1 nodes are another's: Taken; of several others': all but one let go, and ask again
//	  └ n−W+1 nodes don't answer: Unknown, never "taken". What was got is freed
//
// A lease's deadline counts from the K-th latest of its nodes' confirmations, each taken
// at the instant before that request was sent. Belief stays inside truth, for at every
// instant before that deadline K nodes hold the key: each for a TTL from when the request
// arrived, which is later than when it was sent. A node that says no is out of this lease
// from then on, and counts again only if it says yes to a later question. Nothing else
// takes a key away: what is freed behind a failed attempt is freed before the same owner
// asks that node again, or the node is left out until [renewer.Store] Settle has passed.
//
// A hung node costs neither time nor the lock: nobody waits for more
// than it takes. Once somebody else is seen to contend, nobody waits
// for a minority that is silent, as both may hold what the other needs.
//
// # Fencing
//
// A token is the local clock in microseconds, or one above the highest counter seen; one round
// does if the clocks agree. A node grants a token only above its counter for that name, or the
// owner's own again ([renewer.Claim]'s Fence), and the counter becomes the token. So of two
// grants the later has the higher token: the two share a node that both held, the earlier one
// first, and that node's counter only rises. It is not enough that a node counts the highest
// it has seen and grants lower ones too. The tests explore the rule state by state, for three
// acquirers over three and five nodes, with crashes, retries, requests that are delayed,
// repeated and lost, and nodes that forget; they show how it breaks without each of its parts.
//
// # What it survives
//
// Any n−W nodes may fail, in any way short of lying, and grants go on; any n−K may and
// no lease is lost: one of three, two of five. A node that comes back does not get back
// the leases that it has missed, only new ones: a lease is renewed, never made again.
//
// A node that forgets, by a restart without persistence, a fail-over to a stale replica
// or an eviction, is worse than one that fails: it votes twice. While it forgets at
// once what no other majority remembers, two may hold the lock. Choose one of:
//
//   - Let servers keep what they know: appendonly with appendfsync
//     always, or leave a server down for a TTL after a crash.
//   - Forgetful(a): W is then ⌊(n+a)/2⌋+1, so that any two grants share
//     more than a nodes. With 5 nodes and a = 1, W = 4 and K = 3: one
//     may forget, one may be down for grants and two for leases.
//   - Fence what must not happen twice: tokens rise over restarts as far as clocks do.
//
// Time: each TTL runs on the node's own clock, whose rate must be right within
// renewer.Config.ClockDrift; the wall clocks need not agree. One that is far
// behind costs its program a round for names that others have used since.
//
// What no lease can promise, a process that wakes from a pause
// included, is said in package renewer.
//
// # No records
//
// A quorum is no [renewer.Recorder], so package once refuses it: its nodes may forget one by one,
// which leases outlive and a record that is to last for days does not. Keep records in one
// deployment.
//
// # Mixed configurations
//
// Two programs whose quorums differ in their nodes, or in Forgetful, could both have a
// majority. Name the nodes ([Names], [Named]), and each program says on every node, under a
// name that no lock has, which nodes it uses, when the store is made and every 20 s while
// it is in use. One that finds another quorum's word there gets [ErrMixed]: from [New], or
// later from Acquire, which grants nothing until the other's word is a minute old. Leases
// held go on. To change the nodes, stop the programs that use the old ones first.
//
// # Cost
//
// A call costs one request to each node and takes as long as the W-th fastest answer. Over 5
// servers on one machine's loopback a lock is acquired and released in 0.7 of what the slowest
// of the nodes takes, fencing included; over 5 that are 2 ms away, in 1.2 of what a single one
// takes. 10,000 leases on 5 servers are renewed in 70 ms, on one in 25 ms (go test -bench .
// ./renewer/quorum, 2 cores). A lease takes less than half a kilobyte more than on one store.
//
// Use one Redis instead, with replicas and fencing, if losing a lock when it fails over
// is bearable: it is a fifth of the servers and of the requests. Use a quorum of servers
// that fail independently, on machines, power and networks of their own, if it is not.
package quorum
