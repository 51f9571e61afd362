package script_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockbeat/lockbeat/renewer"
	contract "github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// The first acquire is not answered, the second finds the lock taken, the third
// is granted.
func Example() {
	ctx, store := context.Background(), script.New()
	store.Script(script.Acquire, script.Fail(errors.New("connection refused")),
		script.Taken(contract.Holder{Node: "web-1"}, renewer.DefaultTTL))
	keeper, err := renewer.New(store, renewer.Config{TTL: renewer.DefaultTTL})
	if err != nil {
		panic(err)
	}
	defer keeper.Shutdown(ctx) //nolint:errcheck // an example

	for _, name := range []string{"first", "second", "third"} {
		lease, err := keeper.Acquire(ctx, renewer.Request{Name: name, Try: true})
		fmt.Println(name, errors.Is(err, renewer.ErrUnavailable), errors.Is(err, renewer.ErrBusy))
		if err == nil {
			_ = lease.Release(ctx)
		}
	}
	fmt.Println("acquires:", len(store.Calls(script.Acquire)))
	// Output:
	// first true false
	// second false true
	// third false false
	// acquires: 3
}
