// Package quorum is a [store.Store] over several independent stores, its nodes.
// A majority of them decides who holds a lock. A lock outlasts the failure of
// any minority, without the gap that a replica leaves when it takes over from
// its primary.
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
// Nodes may be of any kind. Use servers that fail independently, on machines,
// power and networks of their own. If it is bearable to lose a lock in a
// fail-over, use one Redis with replicas and fencing.
//
// # Authority
//
// With n nodes, a claim is granted when K = ⌊n/2⌋+1 nodes grant it with the
// same fencing token. A lease is valid while K nodes hold it for its owner. Any
// two sets of K nodes have one in common, and that one has a single owner. Each
// call asks all nodes at once.
//
//	K nodes grant one token            granted; a node whose counter is higher is asked again
//	n−K+1 nodes are another's          taken; if of several others', all but one let go
//	n−K+1 nodes don't answer           unknown, never "taken": what was got is freed
//	K nodes renew                      held; else lost at the deadline
//	K nodes have freed it              released
//
// A lease's deadline counts from the K-th latest confirmation by its nodes.
// Each confirmation counts from before its request was sent. A hung node costs
// neither time nor the lock.
//
// # What it survives
//
//	nodes away                                grants      leases
//	up to n−K: one of three, two of five      go on       go on
//	more                                      Unknown     are lost at their deadline
//
// # What to watch out for
//
//   - A node that forgets (restart without persistence, fail-over to a stale replica, eviction) can
//     vote twice, so that two owners hold the lock. Let servers keep what they know, and
//     fence what must not happen twice.
//   - A node that comes back gets new leases only: a lease is renewed, never made again.
//   - Programs with different nodes could both have a majority. Name the nodes ([Names]),
//     and such a program gets [ErrMixed]. To change the nodes, first stop the programs that use the
//     old ones.
//   - The rate of each node's clock must be right within [renewer.Config] ClockDrift.
//   - A quorum is no [store.Recorder], so package once refuses it. Keep records elsewhere.
package quorum
