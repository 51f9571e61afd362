// Package inspect shows which locks and limits are held, by whom, and who waits
// for them, and breaks a lease that is stuck. It asks the store, not the
// processes, and can be run at any time.
//
//	for lock, err := range inspect.List(ctx, locks, inspect.Match("order:*")) {
//		...
//	}
//	lock, err := inspect.Show(ctx, locks, "order:42", false)
//	err = inspect.Break(ctx, locks, inspect.Order{
//		Name: "order:42", Fence: lock.Slots[0].Fence, By: "alice", Why: "hangs for an hour",
//	})
//
// The stores of packages redisstore and memory can be inspected; of a quorum,
// inspect each server's. All functions may be called concurrently.
package inspect
