package renewer_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

// A lease by hand. Package lockmw does this around a function.
func Example() {
	ctx := context.Background()
	// in production redisstore in place of memory
	keeper, err := renewer.New(memory.New(), renewer.Config{TTL: renewer.DefaultTTL})
	if err != nil {
		panic(err)
	}
	defer keeper.Shutdown(ctx) //nolint:errcheck // an example

	lease, err := keeper.Acquire(ctx, renewer.Request{Name: "order:42", Operation: "charge"})
	if err != nil {
		panic(err)
	}
	operation := lease.Context() // ends if the lease is lost; context.Cause says why
	fmt.Println("live:", operation.Err() == nil, "valid by the clock:", lease.Valid())

	_, err = keeper.Acquire(ctx, renewer.Request{Name: "order:42", Try: true})
	var refused *renewer.Error
	if errors.As(err, &refused) && errors.Is(err, renewer.ErrBusy) {
		fmt.Println("refused; the holder's operation is", refused.Holder.Operation)
	}

	fmt.Println("released:", lease.Release(ctx))
	// Output:
	// live: true valid by the clock: true
	// refused; the holder's operation is charge
	// released: <nil>
}

// An operation that hangs gives its lock up after MaxHold, and hears why.
func ExampleLostError() {
	ctx := context.Background()
	keeper, err := renewer.New(memory.New(), renewer.Config{
		TTL: renewer.DefaultTTL, Heartbeat: 400 * time.Millisecond,
		MaxHold: 400 * time.Millisecond, // in production a minute or so
	})
	if err != nil {
		panic(err)
	}
	defer keeper.Shutdown(ctx) //nolint:errcheck // an example
	lease, err := keeper.Acquire(ctx, renewer.Request{Name: "order:42"})
	if err != nil {
		panic(err)
	}

	<-lease.Context().Done()
	cause := context.Cause(lease.Context())
	var lost *renewer.LostError
	fmt.Println(errors.Is(cause, renewer.ErrLost), errors.As(cause, &lost) &&
		lost.Reason == renewer.ReasonMaxHold)
	_ = lease.Release(ctx) // the operation has returned
	// Output: true true
}
