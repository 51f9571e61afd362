package inspect_test

import (
	"context"
	"fmt"
	"time"

	"github.com/lockbeat/lockbeat/inspect"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

// An operator finds a lock that has been held for too long, and breaks that
// lease and no other.
func Example() {
	ctx, locks := context.Background(), memory.New()
	keeper, err := renewer.New(locks, renewer.Config{TTL: time.Second, Node: "web-1"})
	if err != nil {
		panic(err)
	}
	defer keeper.Shutdown(ctx) //nolint:errcheck // an example
	lease, err := keeper.Acquire(ctx, renewer.Request{Name: "order:42", Operation: "charge"})
	if err != nil {
		panic(err)
	}
	defer lease.Release(ctx) //nolint:errcheck // an example

	for lock, err := range inspect.List(ctx, locks, inspect.Match("order:*")) {
		if err != nil {
			panic(err)
		}
		holder := lock.Slots[0]
		fmt.Println(lock.Name, "is held by", holder.Node, "to", holder.Operation)
		fmt.Println("broken:", inspect.Break(ctx, locks, inspect.Order{
			Name: lock.Name, Fence: holder.Fence, By: "alice", Why: "hangs for an hour",
		}))
	}

	lock, err := inspect.Show(ctx, locks, "order:42", false)
	if err != nil {
		panic(err)
	}
	fmt.Println("broken by", lock.Slots[0].Broken.By, "and held until the operation returns")

	<-lease.Context().Done()
	fmt.Println(context.Cause(lease.Context()))
	// Output:
	// order:42 is held by web-1 to charge
	// broken: <nil>
	// broken by alice and held until the operation returns
	// lockbeat: lease on "order:42" lost: it was broken by alice: hangs for an hour
}
