package quorum_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/renewer/quorum"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// Before there are servers, stores in memory stand in for them. Later
// each becomes a redisstore.New, and nothing else changes.
func Example() {
	store, err := quorum.New([]renewer.Store{memory.New(), memory.New(), memory.New()})
	if err != nil {
		panic(err)
	}
	defer store.Close()
	keeper, err := renewer.New(store, renewer.Config{TTL: renewer.DefaultTTL})
	if err != nil {
		panic(err)
	}
	defer keeper.Shutdown(context.Background()) //nolint:errcheck // an example

	lease, err := keeper.Acquire(context.Background(), renewer.Request{
		Name: "order:42", Operation: "charge",
	})
	if err != nil {
		panic(err)
	}
	_, err = keeper.Acquire(context.Background(), renewer.Request{Name: "order:42", Try: true})
	fmt.Println(lease.Name(), "is ours;", "another is refused:", errors.Is(err, renewer.ErrBusy))
	fmt.Println(lease.Release(context.Background()))
	// Output:
	// order:42 is ours; another is refused: true
	// <nil>
}

// Check is for a program that should rather not start than wait for its locks.
func ExampleStore_Check() {
	nodes := []renewer.Store{memory.New(), memory.New(), memory.New()}
	for i := range 2 {
		down := script.New()
		for _, op := range []script.Op{script.Acquire, script.Renew, script.Release} {
			down.Default(op, script.Fail(errors.New("refused")))
		}
		nodes[i] = down
		store, err := quorum.New(nodes)
		if err != nil {
			panic(err)
		}
		fmt.Println(store.Check(context.Background()))
		store.Close()
	}
	// Output:
	// <nil>
	// lockbeat: lock store unavailable: quorum: check: 2 of 3 nodes gave no answer, 2 must agree: node 1: refused; node 2: refused
}
