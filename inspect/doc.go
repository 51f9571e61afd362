// Package inspect shows which locks and limits are held, by whom, and who waits for them, and
// breaks a lease that is stuck. It asks the store, not the processes: any program that reaches the
// store can run it at any time.
//
//	for lock, err := range inspect.List(ctx, locks, inspect.Match("order:*")) {
//		...
//	}
//	lock, err := inspect.Show(ctx, locks, "order:42", false)
//	err = inspect.Break(ctx, locks, inspect.Order{
//		Name: "order:42", Fence: lock.Slots[0].Fence, By: "alice", Why: "hangs for an hour",
//	})
//
// Reading takes no lock and changes nothing. Breaking a lease ends no process: the context of its
// operation ends, and the lock is free when the operation has returned, at the end of its TTL at
// the latest.
//
// The stores of packages redisstore and memory can be inspected. A quorum can't, since its servers
// may disagree: inspect each of them.
//
// All functions may be called concurrently.
package inspect
