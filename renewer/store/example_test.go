package store_test

import (
	"context"
	"fmt"
	"time"

	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// Two owners want one name: a store answers each claim at once, and says who
// has it.
func Example() {
	locks := memory.New().Engine()
	ctx := context.Background()
	for _, owner := range []string{"first-owner-token-0001", "other-owner-token-0001"} {
		grants := locks.Acquire(ctx, []store.Claim{{
			Name: "order:42", Owner: owner, TTL: time.Minute,
			Holder: store.Holder{Node: "web-1", Operation: "charge"},
		}})
		fmt.Println(grants[0].Status, grants[0].Holder)
	}
	// Output:
	// held unknown holder
	// taken web-1 (charge)
}
